//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![forbid(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
#[allow(dead_code, unused_imports)]
mod guard;
#[allow(dead_code, unused_imports)]
mod model;
#[allow(dead_code, unused_imports)]
mod outbound;

pub use error::{By, Call, Error, Result};
pub use guard::{Decision, IntoToolCallCheck, RecordedDecision, ToolCall, ToolCallCheck, UrlCheck};
pub use model::{
    Answer, Block, Conversation, IntoModel, Message, Model, ModelProxy, Role, Script, Tool, ToolResult, ToolUse,
};
