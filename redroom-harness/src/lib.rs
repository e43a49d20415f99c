//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![deny(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
mod evidence;
mod excerpt;
/// What `tests/fuzz` reaches of this crate: functions that take bytes and assert. In tests they run again what was found once.
#[cfg(any(test, redroom_fuzzing))]
#[doc(hidden)]
#[path = "../../tests/fuzz/harness/mod.rs"]
pub mod fuzzing;
pub mod guard;
mod init;
mod limits;
mod link;
mod model;
mod nearest;
mod options;
mod outbound;
pub mod planting;
mod redroom;
pub mod registry;
mod report;
mod run;
mod run_folder;
mod runner;
mod settings;
mod setup;
mod slot;
mod suite;
mod visible;

pub use agent::{Agent, ClaudeCode, Shell, Turn};
pub use async_trait::async_trait;
pub use error::{By, Call, Error, Result};
pub use evidence::{
    AgentFacts, Artifacts, CallSource, Change, ChangeKind, Claim, EntryKind, Facts, FoundSecret, ModelCall, Place, Ran,
    RecordedToolCall, RunResult, RunSnapshot, SCHEMA_VERSION, Sighting,
};
pub use guard::{Decision, IntoToolCallCheck, RecordedDecision, ToolCall, ToolCallCheck, UrlCheck};
pub use init::init;
pub use limits::Limits;
pub use model::{
    Answer, Ask, AskKind, Block, Conversation, IntoModel, Message, Model, ModelProxy, Role, Script, Tool, ToolResult,
    ToolUse,
};
pub use options::RunOptions;
pub use planting::{Body, File, Files, Page, Pages, Secret, Secrets, canary, dir, unplanted};
pub use redroom::{Redroom, sweep};
pub use redroom_sidecar::search::{Container, Encoding, Inside, Unsearched, Why, find_secrets, redact_secrets};
pub use redroom_sidecar::wire::{
    DnsQuestion, Found, Hit, ModelCallKind, ModelEndpoint, ModelRequest, Octets, Part, Protocol, Refusal, Transport,
};
pub use run::{ExecOutput, Run};
pub use serde_json::json;
pub use settings::DEFAULT_DOMAIN;
pub use setup::Setup;
pub use suite::Suite;

#[doc(hidden)]
pub use inventory;
#[doc(hidden)]
pub use runner::run as run_suite;
