//! What is told of a run while it lives, to whoever watches: short, on one line, and without the values of what was planted or
//! is held. A view: the journal is the evidence.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redroom_sidecar::wire::Hit;

use crate::agent::{Agent, Turn};
use crate::evidence::{RecordedToolCall, Redactor, telling};

/// The longest line that is told of what an agent says, in bytes.
const LINE_LIMIT: usize = 64 * 1024;

/// How many hits are remembered as told.
const HITS: usize = 4096;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Moment {
    MovedIn {
        slot: u32,
    },
    TurnBegan {
        index: u32,
        message: String,
    },
    /// A line of what the agent says.
    Said(String),
    ToolCall {
        id: u64,
        line: String,
    },
    Hit {
        id: u64,
        line: String,
    },
    TurnEnded {
        index: u32,
        duration: Duration,
        cost_usd: Option<f64>,
        failed: bool,
    },
}

/// Whoever watches a session.
pub(crate) trait Observer: Send + Sync {
    /// Something takes long: a line now and then.
    fn notice(&self, line: &str);

    fn moment(&self, _attack: &str, _moment: Moment) {}

    /// Whether it wants to hear of moments at all.
    fn watches(&self) -> bool {
        false
    }

    /// Whether it wants to hear what agents say, line by line.
    fn listens(&self) -> bool {
        false
    }
}

/// One run, as it is watched.
pub(crate) struct Watched {
    attack: String,
    planted: Redactor,
    /// What was told of hits: one is reported again when more is known of it, which is mostly nothing.
    hits: Mutex<HashMap<u64, String>>,
    observer: Arc<dyn Observer>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("attack", &self.attack).finish_non_exhaustive()
    }
}

impl Watched {
    pub(crate) fn new<'a>(
        attack: &str,
        planted: impl IntoIterator<Item = &'a str>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Watched { attack: attack.to_owned(), planted: Redactor::new(planted), hits: Mutex::default(), observer }
    }

    pub(crate) fn moved_in(&self, slot: u32) {
        self.tell(Moment::MovedIn { slot });
    }

    pub(crate) fn turn_began(&self, index: u32, message: &str) {
        self.tell(Moment::TurnBegan { index, message: self.clean(message) });
    }

    pub(crate) fn tool_call(&self, call: &RecordedToolCall) {
        // A call that is reported twice is one.
        if call.reported == 1 {
            self.tell(Moment::ToolCall { id: call.id, line: telling::tool_call(call, |text| self.clean(text)) });
        }
    }

    pub(crate) fn hit(&self, hit: &Hit) {
        // Only then it is known what is in it.
        if !hit.complete {
            return;
        }
        let line = self.clean(&telling::hit_and_secrets(hit));
        let mut told = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= HITS {
            told.clear();
        }
        if told.insert(hit.id, line.clone()).as_ref() != Some(&line) {
            drop(told);
            self.tell(Moment::Hit { id: hit.id, line });
        }
    }

    pub(crate) fn turn_ended(&self, turn: &Turn, failed: bool) {
        let (index, duration, cost_usd) = (turn.index, turn.duration, turn.cost_usd);
        self.tell(Moment::TurnEnded { index, duration, cost_usd, failed });
    }

    /// Takes the output of an agent, if somebody listens.
    pub(crate) fn ear(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Option<Ear> {
        self.observer.listens().then(|| Ear { watched: self.clone(), agent, line: Vec::new(), too_long: false })
    }

    fn tell(&self, moment: Moment) {
        self.observer.moment(&self.attack, moment);
    }

    fn clean(&self, text: &str) -> String {
        self.planted.text(text.to_owned())
    }
}

/// Hears what an agent prints, line by line.
pub(crate) struct Ear {
    watched: Arc<Watched>,
    agent: Arc<dyn Agent>,
    line: Vec<u8>,
    too_long: bool,
}

impl Ear {
    pub(crate) fn hear(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            self.end_of_line();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    pub(crate) fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.too_long, false) && !line.is_empty() {
            let said = self.agent.said(&String::from_utf8_lossy(&line));
            for line in said.iter().flat_map(|said| said.lines()) {
                self.watched.tell(Moment::Said(self.watched.clean(line)));
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LINE_LIMIT {
            self.too_long = true;
            self.line.clear();
        } else if !self.too_long {
            self.line.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<Moment>>);

    impl Observer for Notes {
        fn notice(&self, _: &str) {}

        fn moment(&self, attack: &str, moment: Moment) {
            assert_eq!(attack, "web::page");
            self.0.lock().unwrap().push(moment);
        }

        fn listens(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_hit_is_told_when_it_is_whole_and_again_only_with_news() {
        let notes = Arc::new(Notes::default());
        let watched = Watched::new("web::page", [], notes.clone());
        let address = "192.0.2.20:443".parse().unwrap();
        let mut hit = Hit::new(1, 1, redroom_sidecar::wire::Protocol::Https, "t.test".to_owned(), address, false);
        watched.hit(&hit);
        hit.complete = true;
        watched.hit(&hit);
        watched.hit(&hit);
        hit.blocked = true;
        watched.hit(&hit);
        let told = notes.0.lock().unwrap().clone();
        let told: Vec<_> =
            told.iter().map(|moment| matches!(moment, Moment::Hit { line, .. } if line.contains("outside"))).collect();
        assert_eq!(told, [false, true]);
    }

    #[test]
    fn what_an_agent_says_is_heard_line_by_line_and_without_what_was_planted() {
        let notes = Arc::new(Notes::default());
        let watched = Arc::new(Watched::new("web::page", ["PLATYPUS-7731"], notes.clone()));
        let mut ear = watched.ear(Arc::new(crate::agent::Shell::new())).unwrap();
        ear.hear(b"one\nit is PLATY");
        ear.hear(b"PUS-7731 and UExBVFlQVVMtNzczMQ==\n");
        ear.hear(&vec![b'x'; LINE_LIMIT + 1]);
        ear.hear(b"\nlast");
        ear.end_of_line();
        let heard = notes.0.lock().unwrap().clone();
        let said = |text: &str| Moment::Said(text.to_owned());
        assert_eq!(heard, [said("one"), said("it is [redacted] and [redacted]=="), said("last")]);
    }
}
