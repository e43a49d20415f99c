//! Decisions on a tool call: what a guard of the test's says, and what the agent reads in a guard's answer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
    pub(super) fn answer(&self) -> Bytes {
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

/// What the agent reads in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) decision: RecordedDecision,
    pub(super) reason: Option<String>,
    pub(super) updated_input: Option<Value>,
}

impl Verdict {
    /// Reads an answer as Claude Code 2.1 does (tried, row by row): fields that it does not know count for nothing, a field
    /// of the wrong type spoils all of it. The error says what is wrong.
    pub(super) fn read(answer: &[u8]) -> Result<Self, String> {
        let answer: Value = match answer {
            [] => return Err("it is empty".to_owned()),
            bytes => serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON ({error})"))?,
        };
        let Value::Object(answer) = answer else { return Err("it is not a JSON object".to_owned()) };
        // An answer that calls itself asynchronous is waited for by nobody: whatever else it says, the tool runs.
        if answer.get("async") == Some(&Value::Bool(true)) {
            return Ok(Verdict::default());
        }
        for key in ["continue", "suppressOutput"] {
            typed(&answer, key, "true or false", Value::as_bool)?;
        }
        for key in ["stopReason", "systemMessage"] {
            text(&answer, key)?;
        }
        let reason = text(&answer, "reason")?;
        let general = match text(&answer, "decision")? {
            None => None,
            Some("approve") => Some(RecordedDecision::Allow),
            Some("block") => Some(RecordedDecision::Deny),
            Some(other) => {
                return Err(format!("\"decision\" is {:?}; it can be \"approve\" or \"block\"", short(other)));
            }
        };
        let specific = match typed(&answer, "hookSpecificOutput", "an object", Value::as_object)? {
            None => Specific::default(),
            Some(output) => Specific::read(output)?,
        };
        let decision = match (general, specific.decision) {
            (Some(RecordedDecision::Deny), _) => RecordedDecision::Deny,
            (_, Some(specific)) => specific,
            (Some(general), None) => general,
            (None, None) => RecordedDecision::None,
        };
        let reason = specific.reason.or(reason).map(str::to_owned);
        Ok(Verdict { decision, reason, updated_input: specific.updated_input.cloned() })
    }
}

/// The part of an answer that is about tool calls only.
#[derive(Default)]
struct Specific<'a> {
    decision: Option<RecordedDecision>,
    reason: Option<&'a str>,
    updated_input: Option<&'a Value>,
}

impl<'a> Specific<'a> {
    fn read(output: &'a Map<String, Value>) -> Result<Self, String> {
        if text(output, "hookEventName")? != Some("PreToolUse") {
            return Err("\"hookSpecificOutput\" needs \"hookEventName\": \"PreToolUse\"".to_owned());
        }
        text(output, "additionalContext")?;
        typed(output, "updatedInput", "an object", Value::as_object)?;
        let decision = match text(output, "permissionDecision")? {
            None => None,
            Some("allow") => Some(RecordedDecision::Allow),
            Some("deny") => Some(RecordedDecision::Deny),
            Some("ask") => Some(RecordedDecision::Ask),
            Some("defer") => Some(RecordedDecision::Defer),
            Some(other) => {
                return Err(format!(
                    "\"permissionDecision\" is {:?}; it can be \"allow\", \"deny\", \"ask\" or \"defer\"",
                    short(other)
                ));
            }
        };
        let reason = text(output, "permissionDecisionReason")?;
        Ok(Specific { decision, reason, updated_input: output.get("updatedInput") })
    }
}

/// As much of a wrong word as an error needs.
fn short(word: &str) -> String {
    word.chars().take(40).collect()
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    typed(object, key, "text", Value::as_str)
}

/// A field that may be missing but not of another type; `null` is another type.
fn typed<'a, T>(
    object: &'a Map<String, Value>,
    key: &str,
    wanted: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| format!("{key:?} is not {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, RecordedDecision, Verdict};

    /// Every row was tried with Claude Code 2.1.332 and `"onFailure": "block"`; `!` stands for a failure, which blocks.
    const ANSWERS: &str = r#"
        none  | {}
        none  | {"permissionDecision":"deny"}
        none  | {"ok":false,"reason":"x"}
        none  | {"systemMessage":"hello"}
        none  | {"continue":false,"stopReason":"S"}
        none  | {"hookSpecificOutput":{"hookEventName":"PreToolUse"}}
        none  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"x"}}}
        none  | {"async":true}
        none  | {"async":true,"decision":"block"}
        none  | {"async":true,"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}
        none  | {"async":false}
        allow | {"decision":"approve"}
        allow | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}
        allow | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","extra":1}}
        deny  | {"decision":"block"}
        deny  |  {"decision":"block"} 
        deny  | {"decision":"approve","decision":"block"}
        deny  | {"continue":false,"decision":"block"}
        deny  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}
        deny  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"},"decision":"block"}
        deny  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"},"decision":"approve"}
        deny  | {"hookSpecificOutput":{"hookEventName":"PreToolUse"},"decision":"block"}
        ask   | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}
        ask   | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"},"decision":"approve"}
        defer | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}
        defer | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"},"decision":"approve"}
        !     | {"decision":"deny"}
        !     | {"decision":"allow"}
        !     | {"decision":null}
        !     | {"decision":"approve","reason":5}
        !     | {"reason":5}
        !     | {"continue":"no"}
        !     | {"suppressOutput":"x"}
        !     | {"systemMessage":5}
        !     | {"hookSpecificOutput":{}}
        !     | {"hookSpecificOutput":null}
        !     | {"hookSpecificOutput":"deny"}
        !     | {"hookSpecificOutput":{"permissionDecision":"deny"}}
        !     | {"hookSpecificOutput":{"hookEventName":"PostToolUse"}}
        !     | {"hookSpecificOutput":{"hookEventName":"Nonsense","permissionDecision":"deny"}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"maybe"}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"DENY"}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":null}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":5}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":"x"}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","additionalContext":5}}
        !     | {"decision":"block"}x
        !     | [{"decision":"block"}]
        !     | "deny"
        !     | 
    "#;

    #[test]
    fn an_answer_is_read_as_the_agent_reads_it() {
        let rows: Vec<_> = ANSWERS.lines().filter_map(|line| line.split_once('|')).collect();
        assert_eq!(rows.len(), 50);
        for (expected, answer) in rows {
            let answer = answer.strip_prefix(' ').unwrap_or(answer);
            let read = match Verdict::read(answer.as_bytes()) {
                Ok(verdict) => serde_json::to_value(verdict.decision).unwrap().as_str().unwrap().to_owned(),
                Err(_) => "!".to_owned(),
            };
            assert_eq!(read, expected.trim(), "{answer}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_said() {
        let said = Verdict::read(br#"{"decision":"deny"}"#).unwrap_err();
        assert_eq!(said, r#""decision" is "deny"; it can be "approve" or "block""#);
    }

    #[test]
    fn reason_and_changed_arguments_are_read() {
        let verdict = Verdict::read(
            br#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",
                 "permissionDecisionReason":"R","updatedInput":{"command":"true"}}}"#,
        )
        .unwrap();
        assert_eq!(
            (verdict.reason.as_deref(), verdict.updated_input.unwrap()["command"].as_str()),
            (Some("R"), Some("true"))
        );
    }

    #[test]
    fn decisions_of_a_test_are_read_as_they_were_meant() {
        for (decision, recorded) in [
            (Decision::allow(), RecordedDecision::Allow),
            (Decision::deny("no \"way\"\n"), RecordedDecision::Deny),
            (Decision::ask("why?"), RecordedDecision::Ask),
        ] {
            assert_eq!(Verdict::read(&decision.answer()).unwrap().decision, recorded);
        }
    }
}
