//! What the agent's tool hook reported, and the decision that it got.

use redroom_sidecar::wire::Octets;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::FoundSecret;
use super::journal::Proof;
use super::log::Entry;
use crate::error::Error;
use crate::guard::{RecordedDecision, Ruling, ToolCall};
use crate::model::AnsweredCall;

/// What the agent's tool hook reported, or, for an agent without one, what its model asked for ([`source`](Self::source)): a
/// claim. One that is reported twice is one, if both reports say the same and got the
/// same decision; several of one `tool_use_id` that do not are an agent's, or a process of its sandbox's, that lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedToolCall {
    /// Number within the run, from 1, in order of arrival.
    pub id: u64,
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Who says so.
    #[serde(default)]
    pub source: CallSource,
    /// The tool: `Bash`, `Read`, `mcp__server__tool`. Empty where the payload could not be read.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// The agent's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The sub-agent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The MCP server that the tool belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<String>,
    /// Whether the model asked for it: what no model asked for, a process of the sandbox made up.
    #[serde(default)]
    pub in_model_answer: InModelAnswer,
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
    /// The payload as it was posted; the call as JSON where nobody posted it.
    pub payload: Octets,
    /// Long parts of input and payload were cut off, for others needed the room. The evidence folder has them whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How many times it was reported.
    pub reported: u32,
    /// Planted secrets in its input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<FoundSecret>,
}

/// Who says that there was a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallSource {
    /// The agent's tool hook, or whoever posted to its address.
    #[default]
    Hook,
    /// The model's answer, for the agent has no hook: whether it ran the tool is not known, and nobody could have stopped it.
    /// Answers that are packed, larger than 8 MiB or in an API that redroom does not read leave none.
    ModelAnswer,
}

/// Whether an answer of the model, as it passed on its way to the agent, asked for a reported tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InModelAnswer {
    /// There was no answer to compare with, not all of them could be read, or the report had no id.
    #[default]
    Unknown,
    /// An answer that came before asked for this tool under this id. Anybody in the sandbox can read an id and report the
    /// same tool with other arguments; that is a second call of this id.
    Matched,
    /// None did: the report is not of a call that the model asked for.
    Unmatched,
}

impl RecordedToolCall {
    /// What the hook posted, and what became of it. The journal adds number and secrets.
    pub(crate) fn new(at_ms: u64, call: Option<ToolCall>, ruling: Ruling, payload: &[u8]) -> Self {
        let (tool, input, id, agent_id, mcp_server) = match call {
            Some(call) => (call.tool_name, call.tool_input, Some(call.tool_use_id), call.agent_id, call.mcp_server),
            None => (String::new(), Value::Null, None, None, None),
        };
        RecordedToolCall {
            id: 0,
            at_ms,
            source: CallSource::Hook,
            tool,
            input,
            tool_use_id: id,
            agent_id,
            mcp_server,
            in_model_answer: InModelAnswer::Unknown,
            decision: ruling.decision,
            reason: ruling.reason,
            checked: ruling.checked,
            latency_ms: u64::try_from(ruling.latency.as_millis()).unwrap_or(u64::MAX),
            error: ruling.error,
            payload: payload.to_vec().into(),
            truncated: false,
            reported: 0,
            secrets: Vec::new(),
        }
    }

    /// What a model's answer asks an agent without a hook for. The journal adds number and secrets.
    pub(crate) fn answered(at_ms: u64, call: AnsweredCall) -> Self {
        let payload = json!({ "id": call.id, "name": call.name, "input": call.input }).to_string();
        RecordedToolCall {
            id: 0,
            at_ms,
            source: CallSource::ModelAnswer,
            tool: call.name,
            input: call.input,
            tool_use_id: Some(call.id),
            agent_id: None,
            mcp_server: None,
            in_model_answer: InModelAnswer::Matched,
            decision: RecordedDecision::Unasked,
            reason: None,
            checked: false,
            latency_ms: 0,
            error: None,
            payload: payload.into_bytes().into(),
            truncated: false,
            reported: 0,
            secrets: Vec::new(),
        }
    }

    /// Whether it is the same call as an `earlier` one: agents report some twice, the second time with what they filled in
    /// for arguments that were left out.
    pub(crate) fn repeats(&self, earlier: &RecordedToolCall) -> bool {
        let kept = match (&earlier.input, &self.input) {
            (Value::Object(earlier), Value::Object(now)) => {
                earlier.iter().all(|(name, value)| now.get(name) == Some(value))
            }
            (earlier, now) => earlier == now,
        };
        let who = |call: &RecordedToolCall| (call.agent_id.clone(), call.mcp_server.clone());
        self.tool_use_id == earlier.tool_use_id
            && self.source == earlier.source
            && self.tool == earlier.tool
            && self.decision == earlier.decision
            && who(self) == who(earlier)
            && kept
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
        if self.payload.0.len() > EXCERPT {
            self.payload.0.truncate(EXCERPT);
            shorten(&mut self.input);
            self.truncated = true;
        }
    }
}

/// How much of a payload, and of an input, is left when a call has to make room, in bytes.
const EXCERPT: usize = 1024;
/// How much of one text of an input is left then.
const TEXT: usize = 256;

/// Cuts its texts; what is too large even so becomes the beginning of its JSON.
fn shorten(input: &mut Value) {
    if let Value::Object(arguments) = input {
        for argument in arguments.values_mut() {
            if let Value::String(text) = argument {
                cut(text, TEXT);
            }
        }
    }
    let mut json = input.to_string();
    if json.len() > EXCERPT {
        cut(&mut json, EXCERPT);
        *input = Value::String(json);
    }
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::guard::HookEvent;

    fn call(tool: &str, input: Value, decision: RecordedDecision) -> RecordedToolCall {
        let payload = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1",
        })
        .to_string();
        let Ok(HookEvent::PreToolUse(call)) = HookEvent::parse(payload.as_bytes()) else { panic!("{payload}") };
        let ruling = Ruling {
            answer: "{}".into(),
            decision,
            reason: None,
            updated_input: None,
            checked: true,
            error: None,
            latency: Duration::ZERO,
        };
        RecordedToolCall::new(0, Some(*call), ruling, payload.as_bytes())
    }

    #[test]
    fn only_a_report_that_says_the_same_is_the_same_call() {
        use RecordedDecision::{Allow, Deny};
        let first = call("ToolSearch", json!({ "query": "x" }), Allow);
        assert!(call("ToolSearch", json!({ "query": "x" }), Allow).repeats(&first));
        assert!(call("ToolSearch", json!({ "query": "x", "max_results": 5 }), Allow).repeats(&first));
        for other in [
            call("ToolSearch", json!({ "query": "y" }), Allow),
            call("ToolSearch", json!({}), Allow),
            call("ToolSearch", Value::Null, Allow),
            call("Read", json!({ "query": "x" }), Allow),
            call("ToolSearch", json!({ "query": "x" }), Deny),
        ] {
            assert!(!other.repeats(&first), "{other:?}");
        }
    }

    #[test]
    fn a_call_that_makes_room_still_says_what_it_was() {
        let small = call("Bash", json!({ "command": "ls" }), RecordedDecision::Allow);
        let mut trimmed = small.clone();
        trimmed.trim();
        assert_eq!(trimmed, small);
        let big = json!({ "file_path": "/workspace/a", "content": "ä".repeat(500_000) });
        let mut trimmed = call("Write", big, RecordedDecision::Deny);
        trimmed.trim();
        assert!(trimmed.truncated && trimmed.weight() < 4096);
        assert_eq!((trimmed.tool.as_str(), &trimmed.input["file_path"]), ("Write", &json!("/workspace/a")));
        assert_eq!(trimmed.input["content"], format!("{}…", "ä".repeat(128)));
        let mut wide = call("Write", json!({ "list": vec!["x"; 10_000] }), RecordedDecision::Allow);
        wide.trim();
        assert!(wide.input.as_str().is_some_and(|json| json.starts_with(r#"{"list":["x""#) && json.len() < 1100));
    }
}
