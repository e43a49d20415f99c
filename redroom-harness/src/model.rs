//! Who plays the model: a script, a function of the test, or a service that real requests are sent on to.
//!
//! All of it lives in this process; the sidecar only hands requests over and answers back. What agents send is hostile:
//! bounded, parsed, refused.

mod answer;
mod anthropic;
mod asks;
mod blocks;
mod chat;
#[cfg(test)]
mod claude_code;
mod conversation;
mod function;
mod player;
mod proxy;
mod script;
mod sse;
#[cfg(test)]
mod tests;
mod tool_uses;

use async_trait::async_trait;
use http::{HeaderMap, Method};

pub use answer::{Answer, ToolUse};
pub use asks::{Ask, AskKind};
pub use conversation::{Block, Conversation, Message, Role, Tool, ToolResult};
pub use function::{IntoModel, Model};
pub use proxy::ModelProxy;
pub use script::Script;

pub(crate) use anthropic::MessagesApi;
pub(crate) use asks::{Asks, BODY_LIMIT, Given, ProviderTools, of_body, of_head, plain};
pub(crate) use blocks::{AnswerBlocks, RequestBlocks, ToolBlock};
pub(crate) use chat::ChatApi;
pub(crate) use function::panic_text;
pub(crate) use player::{Player, Provider};
pub(crate) use proxy::{NoModelAccess, authorities, missing_model_access};
pub(crate) use tool_uses::{AnsweredCall, tool_uses};

use crate::error::{Error, Result};
pub(crate) use crate::outbound::Body;

/// A request of the agent to its model.
pub(crate) struct ModelCall {
    /// The run's id.
    pub(crate) run: String,
    /// The method.
    pub(crate) method: Method,
    /// Path and query as the agent sent them; starts with a slash.
    pub(crate) target: String,
    /// The agent's headers without its credentials and without those of the connection.
    pub(crate) headers: HeaderMap,
    /// What of the agent's headers goes no further: its credentials, the host that it asks.
    pub(crate) withheld: HeaderMap,
    /// The body, as it comes.
    pub(crate) body: Body,
}

/// What answers the agent's model requests.
#[async_trait]
pub(crate) trait Upstream: Send + Sync {
    /// The answer; its body may fail in the middle, and then the agent's must, too. An error means that no answer had
    /// begun: `timeout` is the agent's 504, all others its 502.
    async fn answer(&self, call: ModelCall) -> Result<http::Response<Body>>;
}

/// Something that belongs in the result's errors although the agent was answered. Travels in the extensions of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Note(pub(crate) Error);
