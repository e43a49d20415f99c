//! What the agent's tool hook reported, and the decision that it got.

use redroom_sidecar::wire::Octets;
use serde::{Deserialize, Serialize};

use super::changes::FoundSecret;
use super::journal::Proof;
use super::log::Entry;
use crate::error::Error;
use crate::guard::{RecordedDecision, Ruling, ToolCall};

/// What the agent's tool hook reported: a claim. Calls are told apart by `tool_use_id`; one that is reported twice is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedToolCall {
    /// Number within the run, from 1, in order of arrival.
    pub id: u64,
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// The tool: `Bash`, `Read`, `mcp__server__tool`. Empty where the payload could not be read.
    pub tool: String,
    /// Its input.
    pub input: serde_json::Value,
    /// The agent's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The sub-agent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The MCP server that the tool belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<String>,
    /// The decision that the agent acts on.
    pub decision: RecordedDecision,
    /// Why, in the guard's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether a guard was asked.
    pub checked: bool,
    /// How long the guard took.
    pub latency_ms: u64,
    /// Why the guard could not be asked; the call was denied then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The payload as it was posted.
    pub payload: Octets,
    /// How many times it was reported.
    pub reported: u32,
    /// Planted secrets in its input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<FoundSecret>,
}

impl RecordedToolCall {
    /// What the hook posted, and what became of it. The journal adds number and secrets.
    pub(crate) fn new(at_ms: u64, call: Option<ToolCall>, ruling: Ruling, payload: &[u8]) -> Self {
        let (tool, input, id, agent_id, mcp_server) = match call {
            Some(call) => (call.tool_name, call.tool_input, Some(call.tool_use_id), call.agent_id, call.mcp_server),
            None => (String::new(), serde_json::Value::Null, None, None, None),
        };
        RecordedToolCall {
            id: 0,
            at_ms,
            tool,
            input,
            tool_use_id: id,
            agent_id,
            mcp_server,
            decision: ruling.decision,
            reason: ruling.reason,
            checked: ruling.checked,
            latency_ms: u64::try_from(ruling.latency.as_millis()).unwrap_or(u64::MAX),
            error: ruling.error,
            payload: payload.to_vec().into(),
            reported: 0,
            secrets: Vec::new(),
        }
    }

    /// Whether the agent was told not to run it.
    pub fn denied(&self) -> bool {
        !self.decision.runs()
    }
}

impl Entry for RecordedToolCall {
    type Proof = Proof;

    fn weight(&self) -> usize {
        256 + 2 * self.payload.len()
    }

    fn proofs(&self) -> Vec<Proof> {
        self.secrets.iter().map(|found| (found.secret.clone(), found.encoding)).collect()
    }

    fn trim(&mut self) {
        if self.payload.0.len() > 1024 {
            self.payload.0.truncate(1024);
            self.input = serde_json::Value::Null;
        }
    }
}
