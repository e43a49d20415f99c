//! What an agent is to redroom: a program, its surroundings, the command of a turn, and how its output is read.
//!
//! An agent opens no file and starts nothing itself: it describes, the harness and the backend act.

use std::time::Duration;

use bytes::Bytes;
use redroom_sidecar::wire::ModelEndpoint;
use serde::{Deserialize, Serialize};

use crate::backend::Program;
use crate::error::{Error, Result};

/// A coding agent that can be run headless, turn by turn.
pub trait Agent: Send + Sync + 'static {
    /// A short name: `claude-code`, `shell`.
    fn name(&self) -> &str;

    /// The version that is asked for; every run checks it against what the program itself says.
    fn version(&self) -> &str;

    /// The model it asks for, as it is named to the agent; `None` for an agent without one.
    fn model(&self) -> Option<&str>;

    /// Finds or fetches the program on this machine. May take long; `progress` gets a line now and then.
    fn program(&self, progress: &(dyn Fn(&str) + Send + Sync)) -> Result<Program>;

    /// The command that prints the version, and what to look for in its output; `None` where there is none.
    fn version_command(&self) -> Option<Vec<String>>;

    /// Environment of everything in the sandbox, beside what redroom sets (home, path, CA variables).
    fn environment(&self, wiring: &Wiring) -> Vec<(String, String)>;

    /// Files that belong to root: the settings that point the agent at the sidecar and that it cannot change.
    fn root_files(&self, wiring: &Wiring) -> Vec<RootFile>;

    /// The model endpoints that it needs; everything else is refused.
    fn model_endpoints(&self) -> Vec<ModelEndpoint>;

    /// Whether each turn is announced by a hook of its own, so that a missing announcement means that the hooks are not
    /// loaded and no model request may be answered.
    fn announces_turns(&self) -> bool;

    /// The command of a turn.
    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand;

    /// Reads one turn's output as it comes.
    fn reader(&self) -> Box<dyn TurnReader>;

    /// Where the agent keeps its own account of the session, if it does: absolute paths in the sandbox, or folders whose
    /// `*.jsonl` count.
    fn transcript(&self, session: &str) -> Option<String>;
}

/// Where the agent finds what it must talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// Base URL of the model: `http://192.0.2.1:81`.
    pub model_base_url: String,
    /// URL of the tool hook: `http://192.0.2.1:82/hook`.
    pub tool_hook_url: String,
    /// The bundle that holds the fake internet's CA and, where the image has them, the usual ones.
    pub ca_bundle: String,
    /// The CA's certificate alone.
    pub ca_certificate: String,
}

/// A file that belongs to root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile {
    /// Absolute.
    pub path: String,
    /// Its content; mode 0644.
    pub body: Vec<u8>,
}

/// One message to the agent.
#[derive(Clone, Copy, Debug)]
pub struct TurnInput<'a> {
    /// The run's session with the agent: a UUID, the same for all turns.
    pub session: &'a str,
    /// Number of the turn, from 0.
    pub index: u32,
    /// What the user says.
    pub message: &'a str,
}

/// How a turn is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Its standard input, then the end.
    pub stdin: Bytes,
}

/// Reads one turn's output. Bounded by the caller: at most 64 MB in all; a reader must bound what it keeps.
pub trait TurnReader: Send {
    /// Takes what came on standard output.
    fn out(&mut self, chunk: &[u8]);

    /// Takes what came on standard error.
    fn err(&mut self, chunk: &[u8]);

    /// What the turn was, now that it has ended with this exit code.
    fn end(self: Box<Self>, exit_code: Option<i64>) -> ParsedTurn;
}

/// What an agent's output says of a turn: its own account, a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedTurn {
    /// The final answer.
    pub final_text: String,
    /// The agent's events as it printed them, at most some thousands.
    pub events: Vec<serde_json::Value>,
    /// Events that were left out because there were too many or they were too large.
    pub events_dropped: u64,
    /// What the agent says it cost so far in this turn, in US dollars at list price.
    pub cost_usd: Option<f64>,
    /// Token counts, in the agent's form.
    pub usage: Option<serde_json::Value>,
    /// Why it stopped, in the agent's words: `completed`, `max_turns`.
    pub stop_reason: Option<String>,
    /// The turn failed: what the result's errors say.
    pub error: Option<Error>,
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
    /// What the agent says it cost, in US dollars at list price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Token counts, in the agent's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<serde_json::Value>,
    /// Why it stopped, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// How long it took.
    #[serde(with = "crate::agent::millis", rename = "duration_ms")]
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
