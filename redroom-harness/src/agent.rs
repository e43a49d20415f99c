//! What an agent is to redroom: a program, its surroundings, the command of a turn, and how its output is read.
//!
//! An agent describes, the harness and the backend act: it starts nothing in a sandbox and reads nothing out of one. The
//! one thing that it does itself is to find its own program on this machine.
//!
//! # An agent of your own
//!
//! Implement [`Agent`]. Four things have no default: what it is called, its version, where its program comes from and the
//! command of a turn. `examples/agents/mini.rs` is a whole one.
//!
//! ```
//! # use redroom_harness as redroom;
//! use redroom::agent::{Agent, Program, ProgramSources, Progress, ToolHook, TurnCommand, TurnInput};
//! use redroom::async_trait;
//!
//! /// An agent that the image has: it prints its message in capitals.
//! struct Shouting;
//!
//! #[async_trait]
//! impl Agent for Shouting {
//!     fn name(&self) -> &str { "shouting" }
//!     fn version(&self) -> &str { "1.0" }
//!     fn hook(&self) -> ToolHook { ToolHook::None }
//!
//!     async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> redroom::Result<Program> {
//!         Ok(Program::new("shouting", "1.0"))
//!     }
//!
//!     fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
//!         TurnCommand::new(["tr", "a-z", "A-Z"]).stdin(turn.message)
//!     }
//! }
//! ```

mod claude_code;
mod npm;
mod program;
mod shell;
mod start;
mod text;
mod turn;
mod wiring;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::backend::{HOME, Program, ProgramFile, Progress, WORKSPACE};
use crate::error::Result;
pub use claude_code::ClaudeCode;
pub use program::ProgramSources;
pub use redroom_sidecar::wire::ModelEndpoint;
pub use shell::Shell;
pub use start::Printed;
pub(crate) use start::not_startable;
pub use text::PlainText;
pub use turn::{ParsedTurn, Turn, TurnCommand, TurnInput, TurnLimit, TurnReader};
pub use wiring::{RootFile, Wiring};

/// Code of the error of a turn that came to no result.
pub const TURN_FAILED: &str = "turn_failed";
/// Code of the error of a turn that failed because its model gave no usable answer.
pub(crate) const MODEL_ERROR: &str = "model_error";
/// Code of the error of an agent whose program cannot be run in the sandbox.
pub const NOT_STARTABLE: &str = "agent_not_startable";
/// Code of the error of an agent that runs without its tool hook.
pub const HOOK_NOT_LOADED: &str = "hook_not_loaded";

/// A coding agent that can be run headless, turn by turn.
///
/// Every method is asked from one task at a time for each run, and from several runs at once. None but
/// [`program`](Agent::program) may block. A method that is added later has a default.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no agent",
    label = "not an `Agent`",
    note = "`ClaudeCode::new(\"2.1.332\")` and `Shell::new()` are agents, and so is what implements `redroom::Agent`"
)]
#[async_trait]
pub trait Agent: Send + Sync + 'static {
    /// A short name: `claude-code`, `shell`.
    fn name(&self) -> &str;

    /// The version that is asked for. Where there is a [`version_command`](Agent::version_command), every session checks it
    /// against what the program itself says.
    fn version(&self) -> &str;

    /// The model it asks for, as it is named to the agent; `None`, the default, for an agent without one. An agent with a
    /// model that never asks it shows nothing: its run has an open question.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Whether what it was given makes sense. Asked at the start of each run, before anything else.
    ///
    /// # Errors
    ///
    /// What the user should write instead; nothing is started then.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Finds, fetches or builds the program on this machine. May take minutes; `progress` gets a line now and then.
    /// Dropping the future must end whatever it started. Asked at the start of each run, by one run of a session at a time:
    /// what was fetched before should be found quickly.
    ///
    /// # Errors
    ///
    /// Why there is none, and what to do.
    async fn program(&self, sources: &ProgramSources, progress: Progress<'_>) -> Result<Program>;

    /// The command that prints the version, at most 1 MiB of it within 60 seconds; `None`, the default, where there is none.
    /// It also shows, before any turn, that the program can be run at all.
    fn version_command(&self) -> Option<Vec<String>> {
        None
    }

    /// The version that [`version_command`](Agent::version_command) printed in the sandbox.
    ///
    /// # Errors
    ///
    /// By default `agent_not_startable` for any exit code but 0, and `agent_version_mismatch` where
    /// [`version`](Agent::version) is no word of what was printed on standard output.
    fn check_version(&self, printed: &Printed<'_>) -> Result<String> {
        start::version_of(self.name(), self.version(), printed)
    }

    /// Environment of everything in the sandbox, beside what redroom sets (`HOME`, `PATH`, CA variables …), and stronger.
    /// Everything in the sandbox can read it: a placeholder belongs where the program wants a key.
    fn environment(&self, _wiring: &Wiring) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Files that belong to root: the settings that point the agent at the sidecar and that it cannot change.
    fn root_files(&self, _wiring: &Wiring) -> Vec<RootFile> {
        Vec::new()
    }

    /// The model endpoints that it needs, by method and path; everything else is refused with 403. By default none.
    fn model_endpoints(&self) -> Vec<ModelEndpoint> {
        Vec::new()
    }

    /// The API that it speaks at these endpoints: whether a script can play its model, and how its model's answers are read.
    fn model_api(&self) -> ModelApi {
        ModelApi::AnthropicMessages
    }

    /// Whether it asks redroom's tool hook before it runs a tool. No default: whoever reads a result must know.
    fn hook(&self) -> ToolHook;

    /// The command of a turn. It runs as the agent's user in [`WORKSPACE`]; what it leaves running in the background goes on.
    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand;

    /// Reads one turn's output as it comes. By default what it prints is its answer: see [`PlainText`].
    fn reader(&self) -> Box<dyn TurnReader> {
        Box::new(PlainText::new(self.name()))
    }

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

/// Whether an agent asks redroom's tool hook before it runs a tool: a POST of the payload that Claude Code's `PreToolUse` hook
/// has to [`Wiring::tool_hook_url`], and an answer that it obeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolHook {
    /// It does not: nobody sees or stops a tool call. Its `tool_calls` are read off its model's answers, and a guard that is
    /// set for it is an error, for it would never be asked.
    #[default]
    None,
    /// What runs in it may ask, and nobody expects it to: a message of [`Shell`] is a script, which does what it wants.
    Voluntary,
    /// Before each tool call. One that its model asked for, and that ran without, is the error `hook_not_called`.
    ToolCalls,
    /// The same, and a hook of its own announces each turn (`UserPromptSubmit`), before its first model request: a missing
    /// announcement means that the hooks are not loaded, and no model request is answered (`hook_not_loaded`).
    TurnsAndToolCalls,
}

impl ToolHook {
    /// Whether it asks at all, so that a guard is of use.
    pub fn asks(self) -> bool {
        self != ToolHook::None
    }

    /// Whether a tool that ran without having been asked about is an error.
    pub fn is_expected(self) -> bool {
        matches!(self, ToolHook::ToolCalls | ToolHook::TurnsAndToolCalls)
    }

    /// Whether it announces each turn.
    pub fn announces_turns(self) -> bool {
        self == ToolHook::TurnsAndToolCalls
    }
}

/// The API that an agent speaks to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelApi {
    /// Anthropic's Messages: `POST /v1/messages`, whole and streamed.
    AnthropicMessages,
    /// OpenAI's Chat Completions: `POST …/chat/completions`, whole and streamed.
    OpenAiChatCompletions,
    /// Another one: a model proxy must answer it, no script can; and an agent without a hook leaves no tool calls.
    Other,
}
