//! Who answers a run's model requests: something that plays the model here, a service, or the provider itself.

use std::sync::Arc;

use super::{MessagesApi, Model, ModelProxy, NoModelAccess, Upstream};
use crate::error::Result;
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

    /// What answers; `key` is the provider's.
    ///
    /// # Errors
    ///
    /// `invalid_model_proxy`.
    pub(crate) fn open(&self, client: &Client, key: Option<&str>) -> Result<Arc<dyn Upstream>> {
        Ok(match (self, key) {
            (Player::Model(model), _) => Arc::new(MessagesApi::new(model.clone())),
            (Player::Proxy(proxy), _) => Arc::new(proxy.open(client)?),
            (Player::Provider, Some(key)) => Arc::new(ModelProxy::anthropic(key).open(client)?),
            (Player::Provider, None) => Arc::new(NoModelAccess),
        })
    }
}
