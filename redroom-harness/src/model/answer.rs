//! What a model says in one answer: text, then tool calls.

use serde_json::Value;

/// What the model says in one answer. Without a tool call it ends the turn.
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::{Answer, json};
///
/// let answer = Answer::say("Let me look.").and_call("Bash", json!({ "command": "ls" }));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What it says before its calls. An answer without text and calls is sent as `(no content)`: agents drop an empty one
    /// and ask again.
    pub text: String,
    /// The tools it calls, all at once.
    pub calls: Vec<ToolUse>,
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// The tool's name, as the agent offers it: `Bash`, `mcp__server__tool`.
    pub name: String,
    /// Its arguments.
    pub input: Value,
}

impl Answer {
    /// Says something and ends the turn, unless calls are added.
    pub fn say(text: impl Into<String>) -> Self {
        Answer { text: text.into(), calls: Vec::new() }
    }

    /// Calls a tool.
    pub fn call(name: impl Into<String>, input: Value) -> Self {
        Answer::default().and_call(name, input)
    }

    /// Calls one more tool in the same answer.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, input: Value) -> Self {
        self.calls.push(ToolUse { name: name.into(), input });
        self
    }

    /// Whether the agent stops after this answer.
    pub fn ends_turn(&self) -> bool {
        self.calls.is_empty()
    }

    /// The text that is sent; `None` where there is nothing to say beside the calls.
    pub(crate) fn spoken(&self) -> Option<&str> {
        match (self.text.trim().is_empty(), self.calls.is_empty()) {
            (false, _) => Some(&self.text),
            (true, true) => Some("(no content)"),
            (true, false) => None,
        }
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Answer::say(text)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Answer::say(text)
    }
}
