//! What the agent reads in a guard's answer.
//!
//! Knows the form of Claude Code's hook, and nothing of who gave the answer. What of an answer goes unheard is for `unheard` to say.

use serde_json::{Map, Value};

use super::RecordedDecision;
use super::unheard::unheard;

/// What the agent reads in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) decision: RecordedDecision,
    pub(crate) reason: Option<String>,
    pub(crate) updated_input: Option<Value>,
    /// The turn ends after this call, whether it ran or not.
    pub(crate) ends_turn: bool,
    /// What the answer may have meant and the agent does not hear, where the tool runs.
    pub(crate) unheard: Option<String>,
}

impl Verdict {
    /// Reads an answer as Claude Code 2.1 does (tried, row by row): fields that it does not know count for nothing, a field
    /// of the wrong type spoils all of it. The error says what is wrong.
    pub(crate) fn read(answer: &[u8]) -> Result<Self, String> {
        // The agent's HTTP client takes a byte order mark off, too.
        let text = answer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(answer);
        let parsed: Value = match text {
            [] => return Err("it is empty".to_owned()),
            bytes => serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON ({error})"))?,
        };
        let Value::Object(answer) = parsed else { return Err("it is not a JSON object".to_owned()) };
        let verdict = Verdict::of(&answer)?;
        let unheard = if verdict.decision.runs() { unheard(text, &answer, verdict.decision) } else { None };
        Ok(Verdict { unheard, ..verdict })
    }

    fn of(answer: &Map<String, Value>) -> Result<Self, String> {
        // An answer that calls itself asynchronous is waited for by nobody: whatever else it says, the tool runs.
        if is_async(answer) {
            return Ok(Verdict::default());
        }
        for key in ["continue", "suppressOutput"] {
            typed(answer, key, "true or false", Value::as_bool)?;
        }
        for key in ["stopReason", "systemMessage", "terminalSequence"] {
            text(answer, key)?;
        }
        let reason = text(answer, "reason")?;
        let general = match text(answer, "decision")? {
            None => None,
            Some("approve") => Some(RecordedDecision::Allow),
            Some("block") => Some(RecordedDecision::Deny),
            Some(other) => {
                return Err(format!("\"decision\" is {:?}; it can be \"approve\" or \"block\"", short(other)));
            }
        };
        let specific = match typed(answer, "hookSpecificOutput", "an object", Value::as_object)? {
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
        Ok(Verdict {
            decision,
            reason,
            updated_input: specific.updated_input.cloned().filter(|_| decision.runs()),
            ends_turn: answer.get("continue") == Some(&Value::Bool(false)),
            unheard: None,
        })
    }
}

pub(super) fn is_async(answer: &Map<String, Value>) -> bool {
    answer.get("async") == Some(&Value::Bool(true)) && answer.get("asyncTimeout").is_none_or(Value::is_number)
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
    use super::Verdict;
    use crate::guard::{Decision, RecordedDecision};

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
        none  | {"async":true,"asyncTimeout":5,"decision":"block"}
        none  | {"Decision":"block"}
        none  | {"reason":"no"}
        none  | {"behavior":"deny"}
        none  | {"__proto__":{"decision":"block"}}
        none  | {"hookspecificoutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}
        none  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","decision":"block"}}
        none  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissiondecision":"deny"}}
        none  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"c"}}
        allow | {"decision":"approve"}
        allow | {"decision":"block","decision":"approve"}
        allow | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecision":"allow"}}
        allow | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}
        allow | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","extra":1}}
        deny  | {"decision":"block"}
        deny  |  {"decision":"block"} 
        deny  | {"decision":"approve","decision":"block"}
        deny  | {"decision":"\u0062lock"}
        deny  | {"async":1,"decision":"block"}
        deny  | {"async":"true","decision":"block"}
        deny  | {"async":null,"decision":"block"}
        deny  | {"async":true,"asyncTimeout":"x","decision":"block"}
        deny  | {"decision":"block","__proto__":null}
        deny  | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"},"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}
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
        !     | {"decision":"Block"}
        !     | {"decision":"block "}
        !     | {"decision":true}
        !     | {"decision":["block"]}
        !     | {"decision":"block",}
        !     | {"terminalSequence":5,"decision":"block"}
        !     | {"hookSpecificOutput":{"hookEventName":"pretooluse","permissionDecision":"deny"}}
        !     | {"hookSpecificOutput":{"hookEventName":["PreToolUse"],"permissionDecision":"deny"}}
        !     | {"hookSpecificOutput":[]}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":null}}
        !     | {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":[1]}}
        !     | {"reason":null,"decision":"block"}
        !     | null
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
        assert_eq!(rows.len(), 81);
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
    fn a_byte_order_mark_is_taken_off() {
        let answer = "\u{feff}{\"decision\":\"block\"}";
        assert_eq!(Verdict::read(answer.as_bytes()).unwrap().decision, RecordedDecision::Deny);
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
