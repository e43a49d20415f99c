//! A guard's answer and a hook's payload, against readers that know nothing but the rules.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::guard::{Decision, HookEvent, RecordedDecision, Verdict};

pub(super) fn run(data: &[u8]) {
    answered(data);
    payload(data);
    let said = String::from_utf8_lossy(data);
    for (decision, recorded) in [
        (Decision::deny(&*said), RecordedDecision::Deny),
        (Decision::ask(&*said), RecordedDecision::Ask),
        (Decision::allow(), RecordedDecision::Allow),
    ] {
        let verdict = Verdict::read(&decision.answer()).unwrap();
        let reason = (recorded != RecordedDecision::Allow).then(|| said.to_string());
        assert_eq!((verdict.decision, verdict.reason, verdict.ends_turn), (recorded, reason, false));
    }
}

/// The fields that the agent knows.
const KNOWN: [&str; 10] = [
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

/// Those of the part about tool calls.
const SPECIFIC: [&str; 5] =
    ["hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"];

fn answered(answer: &[u8]) {
    let text = answer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(answer);
    let expected = serde_json::from_slice::<Value>(text).ok().and_then(|answer| decision(answer.as_object()?));
    match Verdict::read(answer) {
        Ok(verdict) => {
            assert_eq!(Some(verdict.decision), expected);
            said_beside(text, &verdict);
            assert!(verdict.decision.runs() || verdict.updated_input.is_none() && verdict.unheard.is_none());
            // What says no in a field that the agent does not know is told.
            let said = serde_json::from_slice::<Value>(text).unwrap();
            let says_no = |(name, value): (&String, &Value)| {
                !KNOWN.contains(&name.as_str()) && ["deny", "block"].iter().any(|no| value == no)
            };
            let no = said.as_object().unwrap().iter().any(says_no);
            assert!(!verdict.decision.runs() || !no || verdict.unheard.is_some(), "{said}");
        }
        Err(why) => {
            assert_eq!(expected, None, "{why}");
            assert!(!why.is_empty() && why.chars().count() < 600, "{why}");
        }
    }
}

/// What an answer says beside its decision; of one that nobody waits for, nothing.
fn said_beside(text: &[u8], verdict: &Verdict) {
    let Ok(Value::Object(answer)) = serde_json::from_slice(text) else { unreachable!("it was read") };
    let is_async =
        answer.get("async") == Some(&Value::Bool(true)) && answer.get("asyncTimeout").is_none_or(Value::is_number);
    let output = answer.get("hookSpecificOutput").and_then(Value::as_object);
    let reason = output.and_then(|output| output.get("permissionDecisionReason")).or(answer.get("reason"));
    let input = output.and_then(|output| output.get("updatedInput")).filter(|_| verdict.decision.runs());
    let ends = answer.get("continue") == Some(&Value::Bool(false));
    let told = (verdict.reason.as_deref(), verdict.updated_input.as_ref(), verdict.ends_turn);
    assert_eq!(told, if is_async { (None, None, false) } else { (reason.and_then(Value::as_str), input, ends) });
    // A "no" in the part about tool calls, where the agent knows no such field.
    let says_no =
        |(name, value): (&String, &Value)| !SPECIFIC.contains(&name.as_str()) && (value == "deny" || value == "block");
    let no = output.is_some_and(|output| output.iter().any(says_no));
    // One of two decisions is not heard.
    let Names(names) = serde_json::from_slice(text).unwrap();
    let twice = ["decision", "hookSpecificOutput"].iter().any(|it| names.iter().filter(|name| name == it).count() > 1);
    assert!(is_async || !verdict.decision.runs() || !no && !twice || verdict.unheard.is_some(), "{answer:?}");
}

/// The names in an object, each as often as it stands there.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Names;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = fields.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// What the agent does with an answer: the rules of its hook, one after the other. `None`: it fails, which blocks.
fn decision(answer: &Map<String, Value>) -> Option<RecordedDecision> {
    let is = |object: &Map<String, Value>, name: &str, right: fn(&Value) -> bool| object.get(name).is_none_or(right);
    if answer.get("async") == Some(&Value::Bool(true)) && is(answer, "asyncTimeout", Value::is_number) {
        return Some(RecordedDecision::None);
    }
    let texts = ["stopReason", "systemMessage", "terminalSequence", "reason", "decision"];
    let general = texts.iter().all(|name| is(answer, name, Value::is_string))
        && ["continue", "suppressOutput"].iter().all(|name| is(answer, name, Value::is_boolean))
        && is(answer, "hookSpecificOutput", Value::is_object);
    let said = answer.get("decision").and_then(Value::as_str);
    if !general || !matches!(said, None | Some("approve" | "block")) {
        return None;
    }
    let mut told = None;
    if let Some(Value::Object(output)) = answer.get("hookSpecificOutput") {
        let texts = ["additionalContext", "permissionDecision", "permissionDecisionReason"];
        let right = output.get("hookEventName").is_some_and(|name| name == "PreToolUse")
            && texts.iter().all(|name| is(output, name, Value::is_string))
            && is(output, "updatedInput", Value::is_object);
        told = match output.get("permissionDecision").and_then(Value::as_str) {
            _ if !right => return None,
            None => None,
            Some("allow") => Some(RecordedDecision::Allow),
            Some("deny") => Some(RecordedDecision::Deny),
            Some("ask") => Some(RecordedDecision::Ask),
            Some("defer") => Some(RecordedDecision::Defer),
            Some(_) => return None,
        };
    }
    Some(match (said, told) {
        (Some("block"), _) => RecordedDecision::Deny,
        (_, Some(told)) => told,
        (Some(_), None) => RecordedDecision::Allow,
        (None, None) => RecordedDecision::None,
    })
}

fn payload(payload: &[u8]) {
    let read = HookEvent::parse(payload);
    let Ok(Value::Object(said)) = serde_json::from_slice(payload) else {
        assert!(read.is_err());
        return;
    };
    let text = |name: &str| said.get(name).and_then(Value::as_str);
    match read {
        Ok(HookEvent::PreToolUse(call)) => {
            assert_eq!(text("hook_event_name"), Some("PreToolUse"));
            assert!(!call.tool_name.is_empty());
            assert_eq!(text("tool_name"), Some(&*call.tool_name));
            assert_eq!(text("tool_use_id"), Some(&*call.tool_use_id));
            assert_eq!(text("session_id"), Some(&*call.session_id));
            assert_eq!(said.get("tool_input"), Some(&call.tool_input));
            assert_eq!(call.payload, Value::Object(said));
        }
        Ok(HookEvent::UserPromptSubmit { prompt, .. }) => assert_eq!(text("prompt"), Some(&*prompt)),
        Ok(HookEvent::Ran { tool_use_id }) => assert_eq!(text("tool_use_id"), Some(&*tool_use_id)),
        Ok(HookEvent::Other { name, .. }) => {
            assert_eq!(text("hook_event_name"), Some(&*name));
            assert!(!["PreToolUse", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure"].contains(&&*name));
        }
        // What is whole is never turned away.
        Err(why) => {
            let whole = ["hook_event_name", "session_id", "tool_name", "tool_use_id", "prompt"];
            let optional = ["agent_id", "mcp_server"].iter().any(|name| said.contains_key(*name));
            let is_whole = whole.iter().all(|name| text(name).is_some_and(|text| !text.is_empty()));
            assert!(!is_whole || optional || !said.contains_key("tool_input"), "{why}");
        }
    }
}
