//! What the agent's tool hook reported, and the decision that it got.

use redroom_sidecar::wire::Octets;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::FoundSecret;
use super::journal::Proof;
use super::log::Entry;
use crate::error::Error;
use crate::guard::{RecordedDecision, Ruling, ToolCall, arguments};
use crate::model::AnsweredCall;

/// What the agent's tool hook reported, or, for an agent without one, what its model asked for ([`source`](Self::source)): a
/// claim. One that is reported twice is one, if both reports say the same and got the
/// same decision; several of one `tool_use_id` that do not are an agent's, or a process of its sandbox's, that lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedToolCall {
    /// Number within the run, from 1, in order of arrival.
    pub id: u64,
    /// Milliseconds since the run moved into its slot, as for hits and model calls.
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
    pub claim: Claim,
    /// Whether anything showed that it ran.
    #[serde(default)]
    pub ran: Ran,
    /// The decision that the agent acts on.
    pub decision: RecordedDecision,
    /// Why, in the guard's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments with which the guard had it run, in place of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// The guard's answer ends the turn after this call, whether it ran or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_turn: bool,
    /// What the guard's answer may have meant and the agent passed over, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
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

/// What a reported tool call is, held against the model's answers as they passed on their way to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Claim {
    /// There was no answer to compare with, not all of them could be read, or the report had no id.
    #[default]
    Unknown,
    /// An answer that came before asked for this tool, under this id, with these arguments. What the agent fills in or puts right
    /// on the way (a default, a relative path) is the same.
    Matched,
    /// As `matched`, but it had been reported before: by the agent once more, or by a process that read it somewhere.
    Repeated,
    /// An answer asked for this tool under this id, but with other arguments.
    Altered,
    /// No answer asked for this tool under this id.
    Forged,
    /// It was never reported: an answer asked for it, and it ran. The input is what the model asked for.
    Missing,
}

impl Claim {
    /// Whether a model's answer is known not to have asked for this.
    pub fn is_made_up(self) -> bool {
        matches!(self, Claim::Altered | Claim::Forged)
    }
}

/// What showed that a tool call ran. A call that fails before it begins does not run; of one that is the last of its run, only the
/// agent's hook can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ran {
    /// Nothing did.
    #[default]
    Unseen,
    /// The agent's hook said so, or somebody in its name: a claim.
    Claimed,
    /// Its result came back to the model, and was no failure.
    Returned,
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
            claim: Claim::Unknown,
            ran: Ran::Unseen,
            decision: ruling.decision,
            reason: ruling.reason,
            updated_input: ruling.updated_input,
            ends_turn: ruling.ends_turn,
            ignored: ruling.unheard,
            checked: ruling.checked,
            latency_ms: u64::try_from(ruling.latency.as_millis()).unwrap_or(u64::MAX),
            error: ruling.error,
            payload: payload.to_vec().into(),
            truncated: false,
            reported: 0,
            secrets: Vec::new(),
        }
    }

    /// A call that ran although its hook was never called.
    pub(crate) fn missing(at_ms: u64, id: String, tool: String, input: Value, ran: Ran) -> Self {
        RecordedToolCall {
            claim: Claim::Missing,
            ran,
            decision: RecordedDecision::None,
            ..Self::unposted(at_ms, tool, input, id)
        }
    }

    /// What a model's answer asks an agent without a hook for. The journal adds number and secrets.
    pub(crate) fn answered(at_ms: u64, call: AnsweredCall) -> Self {
        let payload = json!({ "id": call.id, "name": call.name, "input": call.input }).to_string();
        RecordedToolCall {
            source: CallSource::ModelAnswer,
            claim: Claim::Matched,
            payload: payload.into_bytes().into(),
            ..Self::unposted(at_ms, call.name, call.input, call.id)
        }
    }

    /// A call of which no hook told, and on which nobody decided.
    fn unposted(at_ms: u64, tool: String, input: Value, id: String) -> Self {
        RecordedToolCall {
            id: 0,
            at_ms,
            source: CallSource::Hook,
            tool,
            input,
            tool_use_id: Some(id),
            agent_id: None,
            mcp_server: None,
            claim: Claim::default(),
            ran: Ran::default(),
            decision: RecordedDecision::Unasked,
            reason: None,
            updated_input: None,
            ends_turn: false,
            ignored: None,
            checked: false,
            latency_ms: 0,
            error: None,
            payload: Vec::new().into(),
            truncated: false,
            reported: 0,
            secrets: Vec::new(),
        }
    }

    /// Whether it is the same call as an `earlier` one: agents report some twice, the second time with what they filled in
    /// for arguments that were left out, or put right.
    pub(crate) fn repeats(&self, earlier: &RecordedToolCall) -> bool {
        fn who(call: &RecordedToolCall) -> (Option<&str>, Option<&str>) {
            (call.agent_id.as_deref(), call.mcp_server.as_deref())
        }
        self.tool_use_id == earlier.tool_use_id
            && self.source == earlier.source
            && self.tool == earlier.tool
            && self.decision == earlier.decision
            && self.claim.is_made_up() == earlier.claim.is_made_up()
            && who(self) == who(earlier)
            && arguments::are_reported(&earlier.input, &self.input, self.cwd().as_deref())
    }

    /// Where the agent's shell was, as the payload says.
    fn cwd(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Place {
            cwd: String,
        }
        serde_json::from_slice(&self.payload.0).ok().map(|Place { cwd }| cwd)
    }

    /// Whether the agent was told not to run it.
    pub fn denied(&self) -> bool {
        !self.decision.runs()
    }
}

impl Entry for RecordedToolCall {
    type Proof = Proof;

    fn weight(&self) -> usize {
        256 + 2 * self.payload.len() + self.updated_input.as_ref().map_or(0, |input| input.to_string().len())
    }

    fn proofs(&self) -> Vec<Proof> {
        self.secrets.iter().map(|found| Proof::Seen(found.secret.clone(), found.encoding)).collect()
    }

    fn trim(&mut self) {
        if self.payload.0.len() > EXCERPT {
            self.payload.0.truncate(EXCERPT);
            shorten(&mut self.input);
            if let Some(input) = &mut self.updated_input {
                shorten(input);
            }
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
            ends_turn: false,
            unheard: None,
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
