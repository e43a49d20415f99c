//! Who answers a run's model requests: something that plays the model here, a service, or the provider itself.

use std::sync::Arc;

use super::{ChatApi, MessagesApi, Model, ModelProxy, NoModelAccess, Upstream};
use crate::agent::ModelApi;
use crate::error::{Error, Result};
use crate::outbound::Client;

/// Who answers a run's model requests.
#[derive(Clone)]
pub(crate) enum Player {
    /// A script or a function of the test.
    Model(Model),
    /// A gateway or proxy.
    Proxy(ModelProxy),
    /// The provider, with the environment's key.
    Provider,
}

impl Player {
    /// What has to be taken out of everything that is stored or said to an agent.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Player::Proxy(proxy) => proxy.secrets(),
            Player::Model(_) | Player::Provider => Vec::new(),
        }
    }

    /// What answers an agent that speaks `api`; `key` is the provider's.
    ///
    /// # Errors
    ///
    /// `invalid_model_proxy`, `model_not_playable`.
    pub(crate) fn open(&self, client: &Client, key: Option<&str>, api: ModelApi) -> Result<Arc<dyn Upstream>> {
        Ok(match (self, api, key) {
            (Player::Model(model), ModelApi::AnthropicMessages, _) => Arc::new(MessagesApi::new(model.clone())),
            (Player::Model(model), ModelApi::OpenAiChatCompletions, _) => Arc::new(ChatApi::new(model.clone())),
            (Player::Model(_), ModelApi::Other, _) => return Err(not_playable()),
            (Player::Proxy(proxy), ..) => Arc::new(proxy.open(client)?),
            (Player::Provider, ModelApi::AnthropicMessages, Some(key)) => {
                Arc::new(ModelProxy::anthropic(key).open(client)?)
            }
            // The key is of one provider, and goes to no other.
            (Player::Provider, ..) => Arc::new(NoModelAccess),
        })
    }
}

fn not_playable() -> Error {
    Error::redroom(
        "model_not_playable",
        "the agent speaks an API in which no script or function can play its model (Agent::model_api says ModelApi::Other): set \
         `model_proxy` to something that does",
    )
}
