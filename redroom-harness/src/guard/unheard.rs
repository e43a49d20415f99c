//! What a guard's answer may have meant and its agent does not hear: a decision in a wrong place, under a wrong name, given twice.
//!
//! Claude Code passes over fields that it does not know. A guard that says "deny" in one of them denies nothing, and nobody
//! would notice but by the leak.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::RecordedDecision;
use super::verdict::is_async;

/// The fields of an answer that the agent knows.
const GENERAL: [&str; 10] = [
    "async",
    "asyncTimeout",
    "continue",
    "suppressOutput",
    "stopReason",
    "systemMessage",
    "terminalSequence",
    "reason",
    "decision",
    "hookSpecificOutput",
];
/// Those of the part that is about tool calls.
const SPECIFIC: [&str; 5] =
    ["hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"];

/// Names that hold a decision in one guard or another, in lower case and without `_` and `-`.
const NAMES: [&str; 20] = [
    "action",
    "allow",
    "allowed",
    "approve",
    "approved",
    "behavior",
    "block",
    "blocked",
    "decision",
    "denied",
    "deny",
    "hookspecificoutput",
    "ok",
    "permission",
    "permissiondecision",
    "reject",
    "rejected",
    "result",
    "safe",
    "verdict",
];
/// Words that say no.
const WORDS: [&str; 10] =
    ["ask", "block", "blocked", "defer", "denied", "deny", "forbidden", "refuse", "reject", "rejected"];

/// Where the hook's form wants a decision.
const RIGHT: &str = "a decision stands in \"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \"permissionDecision\": \"deny\"}, \
                     and {} is no opinion";

/// What of an answer with which the tool runs its agent passes over, if that may have meant something: in words for the test's author.
pub(super) fn unheard(text: &[u8], answer: &Map<String, Value>, decision: RecordedDecision) -> Option<String> {
    let general = Fields { object: answer, known: &GENERAL, place: "" };
    let specific = answer.get("hookSpecificOutput").and_then(Value::as_object);
    let specific = specific.map(|object| Fields { object, known: &SPECIFIC, place: " of \"hookSpecificOutput\"" });
    if is_async(answer) {
        let says_more = answer.keys().any(|name| !["async", "asyncTimeout"].contains(&name.as_str()));
        return says_more
            .then(|| "an answer with \"async\": true is not waited for, and the rest of it not read".to_owned());
    }
    if let Some(twice) = given_twice(text) {
        return Some(format!("\"{twice}\" is given more than once, and only the last one is read"));
    }
    if let Some(name) = general.misplaced().or_else(|| specific.as_ref().and_then(Fields::misplaced)) {
        return Some(format!("{name} is a field that it does not know; {RIGHT}"));
    }
    if decision != RecordedDecision::None {
        return None;
    }
    if answer.contains_key("reason")
        || specific.is_some_and(|fields| fields.object.contains_key("permissionDecisionReason"))
    {
        return Some(format!("it gives a reason without a decision; {RIGHT}"));
    }
    let ends = answer.get("continue") == Some(&Value::Bool(false));
    ends.then(|| format!("\"continue\": false ends the turn only after this tool has run; {RIGHT}"))
}

/// The fields of one object of the answer.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    known: &'static [&'static str],
    place: &'static str,
}

impl Fields<'_> {
    /// The first field that the agent does not know and that is called like a decision, or says no.
    fn misplaced(&self) -> Option<String> {
        let unknown = self.object.iter().filter(|(name, _)| !self.known.contains(&name.as_str()));
        let mut meant = unknown.filter(|(name, value)| is_decision(name) || says_no(value, 8));
        meant.next().map(|(name, _)| format!("{:?}{}", name.chars().take(40).collect::<String>(), self.place))
    }
}

fn is_decision(name: &str) -> bool {
    let plain: String = name.chars().filter(|char| !matches!(char, '_' | '-')).flat_map(char::to_lowercase).collect();
    NAMES.contains(&plain.as_str())
}

fn says_no(value: &Value, depth: u8) -> bool {
    match value {
        Value::String(word) => WORDS.contains(&word.trim().to_lowercase().as_str()),
        _ if depth == 0 => false,
        Value::Array(values) => values.iter().any(|value| says_no(value, depth - 1)),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_decision(name) || says_no(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A field that decides and that an object of the answer has twice.
fn given_twice(text: &[u8]) -> Option<&'static str> {
    #[derive(Default)]
    struct Decisive(Option<&'static str>);

    impl<'de> Deserialize<'de> for Decisive {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Reader)
        }
    }

    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = Decisive;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Decisive, M::Error> {
            let (mut seen, mut twice) = (Vec::new(), None);
            while let Some(name) = map.next_key::<String>()? {
                let known =
                    ["decision", "permissionDecision", "hookSpecificOutput"].into_iter().find(|known| *known == name);
                if let Some(known) = known {
                    twice = twice.or(seen.contains(&known).then_some(known));
                    seen.push(known);
                }
                match known {
                    Some("hookSpecificOutput") => twice = twice.or(map.next_value::<Decisive>()?.0),
                    Some(_) | None => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(Decisive(twice))
        }
    }

    serde_json::from_slice::<Decisive>(text).ok()?.0
}

#[cfg(test)]
mod tests {
    use crate::guard::verdict::Verdict;

    #[test]
    fn what_may_have_meant_a_decision_and_is_none_is_told() {
        for (answer, says) in [
            (r#"{"permissionDecision":"deny"}"#, r#""permissionDecision" is a field"#),
            (r#"{"Decision":"block"}"#, r#""Decision""#),
            (r#"{"permission_decision":"deny"}"#, "permission_decision"),
            (r#"{"HookSpecificOutput":{"permissionDecision":"deny"}}"#, "HookSpecificOutput"),
            (
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","decision":"block"}}"#,
                r#"of "hookSpecificOutput""#,
            ),
            (r#"{"ok":false,"reason":"x"}"#, r#""ok""#),
            (r#"{"answer":{"status":"Deny"}}"#, r#""answer""#),
            (r#"{"answer":[{"deny":true}]}"#, r#""answer""#),
            (r#"{"async":true,"decision":"block"}"#, "async"),
            (r#"{"decision":"block","decision":"approve"}"#, r#""decision" is given more than once"#),
            (
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecision":"allow"}}"#,
                r#""permissionDecision" is given more than once"#,
            ),
            (r#"{"permissionDecision":"deny","decision":"approve"}"#, "permissionDecision"),
            (r#"{"reason":"no"}"#, "a reason without a decision"),
            (r#"{"continue":false,"stopReason":"S"}"#, "only after this tool has run"),
        ] {
            let verdict = Verdict::read(answer.as_bytes()).unwrap();
            assert!(verdict.decision.runs());
            let said = verdict.unheard.unwrap_or_else(|| panic!("{answer}: nothing is told"));
            assert!(said.contains(says), "{answer}: {said}");
        }
    }

    #[test]
    fn what_means_nothing_or_is_heard_is_not_told() {
        for answer in [
            "{}",
            r#"{"async":true}"#,
            r#"{"request_id":"7","risk":0.1,"rules":["net"]}"#,
            r#"{"systemMessage":"deny","suppressOutput":true}"#,
            r#"{"decision":"approve","reason":"fine","continue":false}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"block"}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"action":"deny"}}}"#,
            r#"{"permissionDecision":"deny","decision":"block"}"#,
            r#"{"decision":"block","decision":"block"}"#,
        ] {
            assert_eq!(Verdict::read(answer.as_bytes()).unwrap().unheard, None, "{answer}");
        }
    }
}
