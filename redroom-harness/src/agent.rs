//! What an agent is to redroom: a program, its surroundings, the command of a turn, and how its output is read.
//!
//! An agent describes, the harness and the backend act: it starts nothing in a sandbox and reads nothing out of one. The
//! one thing that it does itself is to find its own program on this machine.

mod claude_code;
mod shell;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::wire::ModelEndpoint;
use serde::{Deserialize, Serialize};

use crate::backend::{Program, Progress};
use crate::error::{Error, Result};

pub use claude_code::ClaudeCode;
pub use shell::Shell;

/// A coding agent that can be run headless, turn by turn.
#[async_trait]
pub trait Agent: Send + Sync + 'static {
    /// A short name: `claude-code`, `shell`.
    fn name(&self) -> &str;

    /// The version that is asked for; every run checks it against what the program itself says.
    fn version(&self) -> &str;

    /// The model it asks for, as it is named to the agent; `None` for an agent without one.
    fn model(&self) -> Option<&str>;

    /// Whether what it was given makes sense. Asked once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Finds or fetches the program on this machine. May take minutes; `progress` gets a line now and then. Dropping the
    /// future ends whatever it started.
    async fn program(&self, sources: &ProgramSources, progress: Progress<'_>) -> Result<Program>;

    /// The command that prints the version; `None` where there is none.
    fn version_command(&self) -> Option<Vec<String>> {
        None
    }

    /// The version that [`Agent::version_command`] printed in the sandbox, or why it is not the one that is asked for
    /// (`agent_version_mismatch`) or none at all (`agent_not_startable`).
    fn check_version(&self, _printed: &Printed<'_>) -> Result<String> {
        Ok(self.version().to_owned())
    }

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

    /// What a line of its standard output says to a person who watches; `None` where it says nothing. Default: the line.
    fn said(&self, line: &str) -> Option<String> {
        Some(line.to_owned())
    }

    /// Whether the file at this absolute path of the sandbox is the agent's own account of the session, or a part of it.
    /// The path is the agent's choice.
    fn is_transcript(&self, _session: &str, _path: &str) -> bool {
        false
    }
}

/// Where an agent's program may come from on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSources {
    /// A file that the user named. It wins over everything, the agent's own settings included.
    pub explicit: Option<PathBuf>,
    /// redroom's cache folder of this user: `~/.cache/redroom`. Made when something is fetched into it.
    pub cache: PathBuf,
}

/// What a command printed, and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// As in [`crate::backend::ExecEnd`].
    pub exit_code: Option<i64>,
    /// Standard output.
    pub out: &'a [u8],
    /// Standard error, and the backend's own words.
    pub err: &'a [u8],
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

    /// Takes what came on standard error, and the backend's own words where it could not start the program.
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
    /// What went wrong, for the result's errors. With [`TURN_FAILED`] and [`NOT_STARTABLE`] there was no turn to speak of;
    /// with other codes there was one, and it ended otherwise than it should.
    pub error: Option<Error>,
}

/// Code of the error of a turn that came to no result.
pub const TURN_FAILED: &str = "turn_failed";
/// Code of the error of an agent whose program cannot be run in the sandbox.
pub const NOT_STARTABLE: &str = "agent_not_startable";
/// Code of the error of an agent that runs without its tool hook.
pub const HOOK_NOT_LOADED: &str = "hook_not_loaded";

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
