//! Who answers a run's model requests: something that plays the model here, a service, or the provider itself.

use std::sync::Arc;

use super::{ChatApi, MessagesApi, Model, ModelProxy, NoModelAccess, Upstream, missing_model_access};
use crate::agent::{Agent, ModelApi};
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
    /// The settings file's gateway, to which this environment lacks something: whoever would ask it is told what.
    Lacking(Error),
}

impl Player {
    /// What has to be taken out of everything that is stored or said to an agent.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Player::Proxy(proxy) => proxy.secrets(),
            Player::Model(_) | Player::Provider | Player::Lacking(_) => Vec::new(),
        }
    }

    /// What answers for this agent.
    ///
    /// # Errors
    ///
    /// `missing_model_access` where the agent would ask a model and nothing could answer; `invalid_model_proxy`,
    /// `model_not_playable`; what the settings file's gateway lacks.
    pub(crate) fn open(&self, agent: &dyn Agent, client: &Client, provider: &Provider) -> Result<Arc<dyn Upstream>> {
        Ok(match (self, agent.model_api(), &provider.key) {
            (Player::Model(model), ModelApi::AnthropicMessages, _) => Arc::new(MessagesApi::new(model.clone())),
            (Player::Model(model), ModelApi::OpenAiChatCompletions, _) => Arc::new(ChatApi::new(model.clone())),
            (Player::Model(_), ModelApi::Other, _) => return Err(not_playable()),
            (Player::Proxy(proxy), ..) => Arc::new(proxy.open(client)?),
            (Player::Provider | Player::Lacking(_), ..) if agent.model_endpoints().is_empty() => {
                Arc::new(NoModelAccess)
            }
            (Player::Lacking(error), ..) => return Err(error.clone()),
            (Player::Provider, ModelApi::AnthropicMessages, Some(key)) => Arc::new(provider.proxy(key).open(client)?),
            // The key is of one provider, and goes to no other.
            (Player::Provider, ..) => return Err(missing_model_access()),
        })
    }
}

/// The provider itself, as the environment has it.
#[derive(Clone, Default)]
pub(crate) struct Provider {
    pub(crate) key: Option<String>,
    /// Where it is, if not where it always is.
    pub(crate) base_url: Option<String>,
}

impl Provider {
    fn proxy(&self, key: &str) -> ModelProxy {
        match &self.base_url {
            Some(base_url) => ModelProxy::new(base_url).header("x-api-key", key),
            None => ModelProxy::anthropic(key),
        }
    }

    /// What has to be taken out of everything that is stored or said to an agent.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.key.iter().flat_map(|key| self.proxy(key).secrets()).collect()
    }
}

fn not_playable() -> Error {
    Error::redroom(
        "model_not_playable",
        "the agent speaks an API in which no script or function can play its model (Agent::model_api says ModelApi::Other): set \
         `model_proxy` to something that does",
    )
}
