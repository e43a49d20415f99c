//! One turn: what the agent is told, the command that tells it, and what its output says came of it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::excerpt::Excerpt;

/// One message to the agent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TurnInput<'a> {
    /// The run's session with the agent: a UUID, the same for all turns.
    pub session: &'a str,
    /// Number of the turn, from 0.
    pub index: u32,
    /// What the user says: at most 16 MiB, which is more than an argument can hold; it belongs on standard input.
    pub message: &'a str,
}

/// How a turn is run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnCommand {
    /// Program and arguments; the program is looked for on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Its standard input, then the end.
    pub stdin: Bytes,
}

impl TurnCommand {
    /// Program and arguments; nothing on standard input.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        TurnCommand { argv: argv.into_iter().map(Into::into).collect(), env: Vec::new(), stdin: Bytes::new() }
    }

    /// What it reads on its standard input, before the end.
    #[must_use]
    pub fn stdin(mut self, input: impl AsRef<[u8]>) -> Self {
        self.stdin = Bytes::copy_from_slice(input.as_ref());
        self
    }

    /// One more variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// Reads one turn's output, which is hostile. At most 64 MB come in all; a reader must bound what it keeps.
pub trait TurnReader: Send {
    /// Takes what came on standard output: pieces of any size, cut anywhere.
    fn out(&mut self, chunk: &[u8]);

    /// Takes what came on standard error, in the same way.
    fn err(&mut self, chunk: &[u8]);

    /// What the turn was, now that it has ended with this exit code: 128 + n for signal n, 126 and 127 where the program
    /// could not be started, `None` where the sandbox died under it or the turn was cut off. Not asked to judge a time-out,
    /// a limit, the end of the sandbox, or a program that could not be started: those are errors by themselves.
    fn end(self: Box<Self>, exit_code: Option<i64>) -> ParsedTurn;
}

/// What an agent's output says of a turn: its own account, a claim.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ParsedTurn {
    /// The final answer.
    pub final_text: String,
    /// The agent's events as it printed them, at most some thousands.
    pub events: Vec<serde_json::Value>,
    /// Events that were left out because there were too many or they were too large.
    pub events_dropped: u64,
    /// Lines of output that were no event.
    pub lines_unread: u64,
    /// What the agent says the whole session has cost so far, earlier turns included, in US dollars at list price.
    pub session_cost_usd: Option<f64>,
    /// Token counts, in the agent's form.
    pub usage: Option<serde_json::Value>,
    /// Why it stopped, in the agent's words: `completed`, `max_turns`.
    pub stop_reason: Option<String>,
    /// The limit of the agent's own that ended the turn.
    pub limit_hit: Option<TurnLimit>,
    /// The agent itself says that the turn ended in an error.
    pub is_error: bool,
    /// What went wrong, for the result's errors. With [`TURN_FAILED`](super::TURN_FAILED) and
    /// [`NOT_STARTABLE`](super::NOT_STARTABLE) there was no turn to speak of;
    /// with other codes there was one, and it ended otherwise than it should.
    pub error: Option<Error>,
}

/// The most that is kept of a final answer, in bytes.
const ANSWER_LIMIT: usize = 4 * 1024 * 1024;
/// The most events that are kept, and what they may weigh together.
const EVENTS_LIMIT: usize = 10_000;
const EVENTS_WEIGHT: usize = 16 * 1024 * 1024;

impl ParsedTurn {
    /// Within the bounds of a result, whatever a reader has kept.
    pub(crate) fn bounded(mut self) -> Self {
        if self.final_text.len() > ANSWER_LIMIT {
            self.final_text = Excerpt::of(&self.final_text, ANSWER_LIMIT);
        }
        let mut weight = 0;
        let fits = self.events.iter().take(EVENTS_LIMIT).take_while(|event| {
            weight += event.to_string().len();
            weight <= EVENTS_WEIGHT
        });
        let fits = fits.count();
        self.events_dropped += (self.events.len() - fits) as u64;
        self.events.truncate(fits);
        self
    }
}

/// A limit of the agent's own that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnLimit {
    /// Too many steps.
    MaxTurns,
    /// Too much money.
    MaxBudget,
}

/// A turn: one message to the agent and what it said it did. A claim; facts are in hits and model calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// Number of the turn, from 0.
    pub index: u32,
    /// What the user said.
    pub message: String,
    /// The final answer.
    pub final_text: String,
    /// The agent's events as it printed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<serde_json::Value>,
    /// Events that were left out because there were too many or they were too large.
    #[serde(default)]
    pub events_dropped: u64,
    /// Lines of its output that were no event.
    #[serde(default)]
    pub lines_unread: u64,
    /// What the agent says this turn cost, in US dollars at list price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Token counts, in the agent's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<serde_json::Value>,
    /// Why it stopped, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The limit of the agent's own that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_hit: Option<TurnLimit>,
    /// The agent itself says that it ended in an error.
    #[serde(default)]
    pub is_error: bool,
    /// How long it took.
    #[serde(with = "crate::agent::turn::millis", rename = "duration_ms")]
    pub duration: Duration,
    /// Exit code of the agent's program.
    pub exit_code: Option<i64>,
    /// What it printed on standard error: the last 16 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

pub(crate) mod millis {
    //! A duration as whole milliseconds.

    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_keeps_too_much_fills_no_result() {
        let events = vec![serde_json::Value::String("x".repeat(4096)); 20_000];
        let parsed = ParsedTurn { final_text: "y".repeat(64_000_000), events, ..ParsedTurn::default() }.bounded();
        assert!(parsed.final_text.len() < ANSWER_LIMIT + 100 && parsed.events.len() < EVENTS_LIMIT);
        assert_eq!(parsed.events.len() as u64 + parsed.events_dropped, 20_000);
    }
}
