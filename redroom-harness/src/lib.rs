//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![forbid(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
#[allow(dead_code)]
mod guard;
mod model;
mod options;
mod outbound;
pub mod planting;
pub mod registry;
mod run;
pub mod evidence;

pub use error::{By, Call, Error, Result};
pub use guard::{Decision, IntoToolCallCheck, RecordedDecision, ToolCall, ToolCallCheck, UrlCheck};
pub use model::{
    Answer, Block, Conversation, IntoModel, Message, Model, ModelProxy, Role, Script, Tool, ToolResult, ToolUse,
};
pub use options::RunOptions;
pub use planting::{Body, File, Files, Page, Pages, Secret, Secrets, canary, dir, unplanted};
pub use run::Run;

#[doc(hidden)]
pub use inventory;
