//! Decisions on a tool call: what a guard of the test's says, and what is recorded.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a guard in the test says of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tool may run.
    Allow,
    /// It may not; the model is told why, and the turn goes on.
    Deny(String),
    /// A person would have to be asked. Nobody is there: the agent does not run the tool.
    Ask(String),
}

impl Decision {
    /// The tool may run.
    pub fn allow() -> Self {
        Decision::Allow
    }

    /// It may not, and the model is told why.
    pub fn deny(why: impl Into<String>) -> Self {
        Decision::Deny(why.into())
    }

    /// A person would have to be asked, and the model is told why.
    pub fn ask(why: impl Into<String>) -> Self {
        Decision::Ask(why.into())
    }

    /// The decision in the form of the agent's hook.
    pub(crate) fn answer(&self) -> Bytes {
        let (decision, reason) = match self {
            Decision::Allow => ("allow", None),
            Decision::Deny(why) => ("deny", Some(why)),
            Decision::Ask(why) => ("ask", Some(why)),
        };
        let mut output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
        if let Some(reason) = reason {
            output["permissionDecisionReason"] = reason.as_str().into();
        }
        Bytes::from(json!({ "hookSpecificOutput": output }).to_string())
    }
}

/// What the agent does with a tool call after its hook was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordedDecision {
    /// The answer holds no opinion: the tool runs.
    #[default]
    None,
    /// The tool runs.
    Allow,
    /// It does not run.
    Deny,
    /// It does not run, for nobody is there to be asked.
    Ask,
    /// It does not run, and the turn ends.
    Defer,
    /// The agent has no hook: nobody was asked, and nothing but the agent kept the tool from running.
    Unasked,
}

impl RecordedDecision {
    /// Whether the tool runs.
    pub fn runs(self) -> bool {
        matches!(self, RecordedDecision::None | RecordedDecision::Allow | RecordedDecision::Unasked)
    }
}
