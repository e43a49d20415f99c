//! A request of the agent to its model, as the relay saw it.

use serde::{Deserialize, Serialize};

use super::{Found, Octets};
use crate::search::Unsearched;

/// Prefix of the headers under which a `/model` request carries the agent's own headers, and its answer the upstream's:
/// `redroom-h-anthropic-version: 2023-06-01`. The target travels in `redroom-target`, the method in `redroom-method`.
pub const MODEL_HEADERS: &str = "redroom-h-";

/// Prefix of the headers of a `/model` request that the harness is told of and that go no further: the agent's credentials,
/// and the host that it asks.
pub const WITHHELD_HEADERS: &str = "redroom-w-";

/// A request of the agent to its model, as the relay saw it: fact, not the agent's own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelRequest {
    /// Number within the run, from 1, in order of arrival.
    pub id: u64,
    /// Milliseconds since the run moved into its slot.
    pub at_ms: u64,
    /// The method.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// What it is about.
    #[serde(default)]
    pub kind: ModelCallKind,
    /// Headers as sent, credentials included (they are the agent's placeholder, or evidence), names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Octets)>,
    /// How many bytes the body had; all of them were searched.
    #[serde(default)]
    pub request_bytes: u64,
    /// Whether the request came to its end.
    #[serde(default)]
    pub complete: bool,
    /// Why it never went to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The status that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How many bytes of an answer the agent was sent.
    #[serde(default)]
    pub response_bytes: u64,
    /// Milliseconds from its arrival to the end of its answer; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Planted secrets in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Found>,
    /// What of head, body and trailers was not searched, or not to its end: a secret may be in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsearched: Vec<Unsearched>,
}

impl ModelRequest {
    /// A request of which only the beginning is known.
    pub fn new(id: u64, at_ms: u64, target: ModelTarget) -> Self {
        ModelRequest {
            id,
            at_ms,
            kind: ModelCallKind::of(&target.method, &target.path),
            method: target.method,
            path: target.path,
            headers: Vec::new(),
            request_bytes: 0,
            complete: false,
            refusal: None,
            status: None,
            response_bytes: 0,
            duration_ms: None,
            secrets: Vec::new(),
            unsearched: Vec::new(),
        }
    }
}

/// What a model request was aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTarget {
    /// The method.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
}

/// What a model request is about, by its target alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelCallKind {
    /// It asks the model for an answer, which may call tools.
    Answer,
    /// It asks how many tokens a conversation has: the model says nothing.
    TokenCount,
    /// It asks which models there are.
    Models,
    /// None of these, such as what is refused.
    #[default]
    Other,
}

impl ModelCallKind {
    /// The kind of a request with this method and target, query included.
    pub fn of(method: &str, target: &str) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        match (method, last) {
            ("POST", "count_tokens") => ModelCallKind::TokenCount,
            ("GET", "models") => ModelCallKind::Models,
            ("POST", _) => ModelCallKind::Answer,
            _ => ModelCallKind::Other,
        }
    }
}

/// Why the relay did not pass a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// Not one of the model endpoints that the agent needs: answered 403.
    PathNotAllowed,
    /// Its target is no path, or it names several hosts: answered 400.
    InvalidTarget,
    /// Its head weighs more than a model request's ever does: answered 431.
    HeadTooLarge,
    /// It belongs to no run: answered 403.
    NoRun,
}
