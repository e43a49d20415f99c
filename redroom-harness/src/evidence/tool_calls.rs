//! One run's tool calls, bounded: what may be genuine, and apart from it what a process of the sandbox made up.
//!
//! Whatever anybody reports in the agent's name, it takes no room from the agent's own calls, and changes none of their records.

use std::collections::HashMap;

use super::log::{Log, MAX_ENTRIES};
use super::tool_call::{Claim, Ran, RecordedToolCall};

/// One run's tool calls.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    genuine: Kind,
    made_up: Kind,
    last: u64,
}

/// Calls of one kind. A log wants numbers without gaps, so that a call's number in it is another than in the run.
#[derive(Debug, Default)]
struct Kind {
    log: Log<RecordedToolCall>,
    last: u64,
    /// Numbers in the log, by the agent's id of the call.
    by_id: HashMap<String, Vec<u64>>,
    indexed: usize,
}

impl ToolCalls {
    /// Takes a report: a new call, or one that was reported before. Gives it as it stands now.
    pub(super) fn put(&mut self, mut call: RecordedToolCall) -> RecordedToolCall {
        // What has no id could not be read: nothing tells it from what anybody might post.
        let apart = call.claim.is_made_up() || call.tool_use_id.is_none();
        let kind = if apart { &mut self.made_up } else { &mut self.genuine };
        if let Some((number, earlier)) = kind.find(&call) {
            let reported = earlier.reported + 1;
            // Said again by whomever, the first record stays; what the agent filled in or put right is what it goes by.
            let keeps_first = call.claim == Claim::Repeated || earlier.input == call.input;
            let claim = if call.claim == Claim::Repeated { Claim::Repeated } else { earlier.claim };
            call = RecordedToolCall {
                id: earlier.id,
                at_ms: earlier.at_ms,
                reported,
                claim,
                ..if keeps_first { earlier } else { call }
            };
            kind.log.put(number, call.clone());
            return call;
        }
        // Another form of a call that has its record is as good as made up.
        let kind = if call.claim == Claim::Repeated { &mut self.made_up } else { kind };
        self.last += 1;
        call.id = self.last;
        call.reported = u32::from(call.claim != Claim::Missing);
        kind.add(call.clone());
        call
    }

    /// Tells each call what showed that it ran; gives those of which the last word is still to be said.
    pub(super) fn settle(&mut self, ran: impl Fn(&str) -> Ran) -> Vec<RecordedToolCall> {
        let mut told = Vec::new();
        for (number, mut call) in self.genuine.numbered() {
            let seen = call.tool_use_id.as_deref().map(&ran).unwrap_or_default().max(call.ran);
            if seen != call.ran || call.reported > 8 {
                call.ran = seen;
                self.genuine.log.put(number, call.clone());
                told.push(call);
            }
        }
        told
    }

    /// All of them, in the order in which they came.
    pub(super) fn entries(&self) -> Vec<RecordedToolCall> {
        let mut calls = self.genuine.log.entries();
        calls.extend(self.made_up.log.entries());
        calls.sort_by_key(|call| call.id);
        calls
    }

    /// How many that may be genuine were pushed out.
    pub(super) fn dropped(&self) -> u64 {
        self.genuine.log.dropped()
    }

    /// How many that were made up were pushed out.
    pub(super) fn made_up_dropped(&self) -> u64 {
        self.made_up.log.dropped()
    }
}

impl Kind {
    /// The newest call that this one repeats, with its number in the log.
    fn find(&self, call: &RecordedToolCall) -> Option<(u64, RecordedToolCall)> {
        let numbers = self.by_id.get(call.tool_use_id.as_ref()?)?;
        let mut earlier = numbers.iter().rev().filter_map(|number| Some((*number, self.log.get(*number)?)));
        earlier.find(|(_, earlier)| call.repeats(earlier)).map(|(number, earlier)| (number, earlier.clone()))
    }

    fn add(&mut self, call: RecordedToolCall) {
        self.last += 1;
        if let Some(id) = &call.tool_use_id {
            let numbers = self.by_id.entry(id.clone()).or_default();
            numbers.push(self.last);
            // Of many calls under one id those that came first and last are enough to tell a repetition.
            if numbers.len() > 16 {
                numbers.remove(8);
            }
            self.indexed += 1;
        }
        self.log.put(self.last, call);
        if self.indexed > 2 * MAX_ENTRIES {
            self.by_id.retain(|_, numbers| {
                numbers.retain(|number| self.log.get(*number).is_some());
                !numbers.is_empty()
            });
            self.indexed = self.by_id.values().map(Vec::len).sum();
        }
    }

    fn numbered(&self) -> Vec<(u64, RecordedToolCall)> {
        (1..=self.last).filter_map(|number| Some((number, self.log.get(number)?.clone()))).collect()
    }
}
