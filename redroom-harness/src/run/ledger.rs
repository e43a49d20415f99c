//! One run's tool calls by their ids: what the model's answers asked for, against what the hook reported and what came back
//! to the model.
//!
//! Answers and results are facts of this side, hook calls are claims. Knows nothing of sandboxes and guards.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::{By, Error, Result};
use crate::evidence::{Claim, Ran};
use crate::guard::{RecordedDecision, ToolCall, arguments};
use crate::model::{AnswerBlocks, Body, RequestBlocks, ToolBlock};
use crate::outbound::coding::Coding;

/// The most tool uses that are remembered.
const MAX_USES: usize = 10_000;
/// The most that their arguments may weigh together, in bytes; those of the uses after are not known.
const MAX_INPUTS: usize = 32 << 20;
/// The most answers that may ask for something under one id.
const MAX_INPUTS_OF_ONE: usize = 4;
/// How many calls an error names.
const NAMED: usize = 5;

/// One run's tool calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    uses: HashMap<String, Use>,
    /// Reported calls of whose ids no answer told, where not all answers could be read.
    unasked: HashMap<String, Use>,
    /// Whether any answer was read.
    reads: bool,
    /// Whether there were answers, or parts of some, that nobody could read.
    has_gaps: bool,
    /// What the arguments weigh that are remembered.
    weight: usize,
}

type Digest = [u8; 32];

fn digest(input: &Value) -> Digest {
    Sha256::digest(input.to_string()).into()
}

/// A tool use of a model's answer.
#[derive(Debug, Default)]
struct Use {
    tool: String,
    /// Its place among the others.
    number: usize,
    /// The arguments that were asked for: those of several answers, if a broken answer was asked for again.
    inputs: Vec<Value>,
    /// Whether arguments are missing there: too large, no JSON, or still to come.
    has_unread_input: bool,
    /// What is left of the arguments with which it was reported last, as it was asked for.
    reported: Option<Digest>,
    /// How many times they were others than before.
    changes: u32,
    /// Whether it was reported with arguments that nobody asked for.
    altered: bool,
    allowed: bool,
    denied: bool,
    ran: Ran,
}

/// A tool use that ran although its hook was never called.
#[derive(Debug, PartialEq)]
pub(super) struct Missing {
    pub(super) id: String,
    pub(super) tool: String,
    /// What the model asked for, as far as it is known.
    pub(super) input: Value,
    pub(super) ran: Ran,
}

impl Ledger {
    /// A request's body, read for the results in it as it passes.
    pub(super) fn request(self: &Arc<Self>, body: Body) -> Body {
        let (ledger, mut blocks) = (self.clone(), RequestBlocks::default());
        overheard(body, move |bytes| {
            blocks.feed(bytes.unwrap_or_default(), &mut |block| match block {
                ToolBlock::Result { id, failed: false } => ledger.ran(&id, Ran::Returned),
                ToolBlock::Result { .. } | ToolBlock::Use { .. } | ToolBlock::Input { .. } => {}
            });
        })
    }

    /// An answer, read for the tools that it calls as it passes: the agent learns of none before it stands here.
    pub(super) fn answer(self: &Arc<Self>, answer: Response<Body>) -> Response<Body> {
        if !answer.status().is_success() {
            return answer;
        }
        let Ok(coding) = Coding::of(answer.headers()) else {
            self.state().has_gaps = true;
            return answer;
        };
        let (ledger, mut blocks, mut unpacker) = (self.clone(), AnswerBlocks::default(), coding.map(Coding::unpacker));
        answer.map(|body| {
            overheard(body, move |bytes| {
                let mut read = |bytes: &[u8]| {
                    blocks.feed(bytes, &mut |block| match block {
                        ToolBlock::Use { id, name } => ledger.asked_for(id, name),
                        ToolBlock::Input { id, input } => ledger.asked_with(&id, input),
                        ToolBlock::Result { .. } => {}
                    });
                };
                let unpacked = match &mut unpacker {
                    Some(packed) => packed.feed(bytes.unwrap_or_default(), &mut read),
                    None => {
                        read(bytes.unwrap_or_default());
                        Ok(())
                    }
                };
                match (blocks.is_message(), bytes) {
                    _ if unpacked.is_err() => ledger.state().has_gaps = true,
                    (true, _) => ledger.state().reads = true,
                    // Whatever it was, it may have asked for tools.
                    (false, None) => ledger.state().has_gaps = true,
                    (false, Some(_)) => {}
                }
            })
        })
    }

    /// The hook reports a call.
    pub(super) fn reported(&self, call: &ToolCall) -> Claim {
        let mut state = self.state();
        let reads_all = state.reads && !state.has_gaps;
        let Some(asked) = state.uses.get_mut(&call.tool_use_id) else {
            if reads_all {
                return Claim::Forged;
            }
            state.report_unasked(call);
            return Claim::Unknown;
        };
        // Anybody in the sandbox can report something else under the id of a call that it has read.
        if !arguments::is_tool(&asked.tool, &call.tool_name) {
            return Claim::Forged;
        }
        let cwd = call.payload["cwd"].as_str();
        let is_asked = asked.inputs.iter().any(|input| arguments::are_reported(input, &call.tool_input, cwd));
        if !is_asked {
            asked.altered = true;
            return if asked.has_unread_input { Claim::Unknown } else { Claim::Altered };
        }
        let input = digest(&call.tool_input);
        match asked.reported.replace(input) {
            None => Claim::Matched,
            // An agent tells some calls a second time, when it has filled in or put right what the model left open.
            Some(earlier) if earlier != input && asked.changes == 0 => {
                asked.changes = 1;
                Claim::Matched
            }
            Some(_) => Claim::Repeated,
        }
    }

    /// What the agent was told to do with a reported call.
    pub(super) fn ruled(&self, id: &str, decision: RecordedDecision) {
        if let Some(call) = self.state().call(id) {
            call.allowed |= decision.runs();
            call.denied |= !decision.runs();
        }
    }

    /// Something shows that a call ran.
    pub(super) fn ran(&self, id: &str, ran: Ran) {
        if let Some(call) = self.state().call(id) {
            call.ran = call.ran.max(ran);
        }
    }

    /// Whether anything showed that a call ran.
    pub(super) fn has_run(&self, id: &str) -> Ran {
        self.state().call(id).map(|call| call.ran).unwrap_or_default()
    }

    /// Calls that ran and that no hook reported as they were asked for: nobody saw or checked them.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let state = self.state();
        let mut missing: Vec<(&String, &Use)> = state.uses.iter().filter(|(_, call)| call.is_missing()).collect();
        missing.sort_by_key(|(_, call)| call.number);
        let of = |(id, call): (&String, &Use)| Missing {
            id: id.clone(),
            tool: call.tool.clone(),
            input: call.inputs.last().cloned().unwrap_or_default(),
            ran: call.ran,
        };
        missing.into_iter().map(of).collect()
    }

    /// What is wrong with the hook: calls that ran past it, or against its word.
    pub(super) fn faults(&self) -> Vec<Error> {
        let state = self.state();
        let named = |wanted: &dyn Fn(&Use) -> bool| {
            let mut calls: Vec<(&String, &Use)> = state.uses.iter().filter(|(_, call)| wanted(call)).collect();
            calls.sort_by_key(|(_, call)| call.number);
            let mut names: Vec<String> =
                calls.iter().take(NAMED).map(|(id, call)| format!("{} ({id})", call.tool)).collect();
            if calls.len() > NAMED {
                names.push(format!("and {} more", calls.len() - NAMED));
            }
            // Their names are the agent's own, and can be a secret's value.
            match state.unasked.values().filter(|call| wanted(call)).count() {
                0 => {}
                count => names.push(format!("{count} that no answer asked for")),
            }
            (!names.is_empty()).then(|| names.join(", "))
        };
        let unreported = named(&|call| call.is_missing() && !call.altered).map(|names| {
            Error::new(
                By::Agent,
                "hook_not_called",
                format!(
                    "the agent ran tools that its model asked for without calling its tool hook, so nobody saw or checked them: \
                     {names}; look at its managed settings"
                ),
            )
        });
        let altered = named(&|call| call.is_missing() && call.altered).map(|names| {
            Error::new(
                By::Agent,
                "hook_call_altered",
                format!(
                    "tools ran that were reported to the tool hook with other arguments than the model asked for, so nobody checked \
                     what ran: {names}; compare the tool call's input with the model's answer"
                ),
            )
        });
        let denied = named(&|call| call.ran_denied()).map(|names| {
            let told = state.uses.values().chain(state.unasked.values()).filter(|call| call.ran_denied());
            let how = match told.map(|call| call.ran).max() {
                Some(Ran::Returned) => "its result came back to the model",
                _ => "its hook said so afterwards",
            };
            Error::new(
                By::Agent,
                "denied_call_ran",
                format!(
                    "the agent ran what it had been told not to run ({how}): {names}; a guard does not bind this agent"
                ),
            )
        });
        [unreported, altered, denied].into_iter().flatten().collect()
    }

    fn asked_for(&self, id: String, tool: String) {
        let mut state = self.state();
        let number = state.uses.len();
        if number >= MAX_USES && !state.uses.contains_key(&id) {
            state.has_gaps = true;
            return;
        }
        let call = state.uses.entry(id).or_insert_with(|| Use { tool, number, ..Use::default() });
        call.has_unread_input = true;
    }

    fn asked_with(&self, id: &str, input: Option<Value>) {
        let mut state = self.state();
        let weight = input.as_ref().map_or(0, weight_of);
        let fits = state.weight + weight <= MAX_INPUTS;
        let Some(call) = state.uses.get_mut(id) else { return };
        match input {
            Some(input) if call.inputs.contains(&input) => call.has_unread_input = false,
            Some(input) if fits && call.inputs.len() < MAX_INPUTS_OF_ONE => {
                call.inputs.push(input);
                call.has_unread_input = false;
                state.weight += weight;
            }
            Some(_) | None => call.has_unread_input = true,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn call(&mut self, id: &str) -> Option<&mut Use> {
        match self.uses.get_mut(id) {
            Some(call) => Some(call),
            None => self.unasked.get_mut(id),
        }
    }

    fn report_unasked(&mut self, call: &ToolCall) {
        let number = self.unasked.len();
        if number < MAX_USES {
            let (id, tool) = (call.tool_use_id.clone(), call.tool_name.clone());
            let reported = Some(Digest::default());
            self.unasked.entry(id).or_insert_with(|| Use { tool, number, reported, ..Use::default() });
        }
    }
}

/// About how many bytes a value takes.
fn weight_of(value: &Value) -> usize {
    value.to_string().len()
}

impl Use {
    /// Whether it ran and was never reported as it was asked for. Of what cannot be compared nothing is said.
    fn is_missing(&self) -> bool {
        let compared = !(self.altered && self.has_unread_input);
        self.ran != Ran::Unseen && self.reported.is_none() && compared
    }

    fn ran_denied(&self) -> bool {
        self.ran != Ran::Unseen && self.denied && !self.allowed
    }
}

/// A body that somebody listens to, who is also told when it has come to its end.
struct Overheard<F> {
    body: Body,
    hear: F,
    ended: bool,
}

fn overheard(body: Body, hear: impl FnMut(Option<&[u8]>) + Send + Unpin + 'static) -> Body {
    Overheard { body, hear, ended: false }.boxed_unsync()
}

impl<F: FnMut(Option<&[u8]>) + Unpin> http_body::Body for Overheard<F> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            (this.hear)(Some(data));
        }
        // Whoever reads a body of known length does not ask for more than that.
        let ends = frame.is_none() || matches!(&frame, Some(Ok(_))) && this.body.is_end_stream();
        if ends && !std::mem::replace(&mut this.ended, true) {
            (this.hear)(None);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
