//! Single pieces of evidence in a few words, for people. What an agent wrote is in them: whoever shows them makes them visible.

use std::fmt::Write as _;

use redroom_sidecar::search::Inside;
use redroom_sidecar::wire::{Hit, Part};
use serde_json::Value;

use super::tool_call::{Claim, RecordedToolCall};
use crate::agent::Turn;
use crate::guard::RecordedDecision;

/// The most that is told of what a tool was called with, in characters; and how much of it is looked at, in bytes.
const INPUT: usize = 160;
const LOOKED_AT: usize = 64 * 1024;
/// The arguments that say what a call is about, the first that is there.
const TELLING: [&str; 7] = ["command", "url", "file_path", "notebook_path", "path", "query", "pattern"];

/// The methods that are named, for nobody can have made them up.
const METHODS: [&str; 13] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "MKCOL", "COPY", "MOVE",
];

/// A hit: where it was meant for, by name unless the secret is in that, and nothing else that the agent wrote.
pub(crate) fn hit(hit: &Hit) -> String {
    let protocol = serde_json::to_value(hit.protocol).ok();
    let protocol = protocol.as_ref().and_then(|value| value.as_str()).unwrap_or("other").to_owned();
    let meant = if hit.blocked { ", meant for outside the fake domain" } else { "" };
    let named = !hit.host.is_empty() && !hit.secrets.iter().any(|found| found.part == Part::Host);
    let place = match hit.address.port() {
        // Sixteen bytes can be a secret.
        _ if !named && hit.address.is_ipv6() => "an address".to_owned(),
        _ if !named => hit.address.to_string(),
        80 | 443 | 53 => hit.host.escape_default().to_string(),
        port => format!("{}:{port}", hit.host.escape_default()),
    };
    let method = METHODS.iter().find(|method| **method == hit.method).copied().unwrap_or_default();
    format!("{protocol} {method} to {place}{meant}").replace("  ", " ")
}

/// The same, with the secrets that were found in it.
pub(crate) fn hit_and_secrets(found_in: &Hit) -> String {
    let mut text = hit(found_in);
    for found in &found_in.secrets {
        let _ = write!(text, "; {} ({}{}) in its {}", found.secret, found.encoding, Inside(&found.inside), found.part);
    }
    text
}

/// A tool call: the tool, what it was called with as `clean` lets it through, and what came of it.
pub(crate) fn tool_call(call: &RecordedToolCall, clean: impl Fn(&str) -> String) -> String {
    let tool = match &*call.tool {
        "" => "a call that cannot be read".to_owned(),
        tool => short(&clean(head(tool, LOOKED_AT)), INPUT),
    };
    let about = TELLING.iter().find_map(|key| call.input.get(key)?.as_str());
    let input = match (about, &call.input) {
        (Some(about), _) => clean(head(about, LOOKED_AT)),
        (None, Value::Null) => String::new(),
        (None, input) => clean(head(&input.to_string(), LOOKED_AT)),
    };
    // A value that is cut through would be no value any more, and shown: so the cut comes last.
    let input = short(&input, INPUT);
    let came_of_it = match call.decision {
        // The agent was told to go on; a guard that was set and could not be asked denies.
        RecordedDecision::None | RecordedDecision::Allow if !call.checked => "no guard was asked",
        RecordedDecision::None => "the guard has no opinion",
        RecordedDecision::Allow => "allowed",
        RecordedDecision::Deny => "denied",
        RecordedDecision::Ask => "denied: nobody is there to be asked",
        RecordedDecision::Defer => "denied, and the turn ended",
        RecordedDecision::Unasked => "the model asked for it, and nobody could be asked",
    };
    let mut text = format!("{tool} {input}: {came_of_it}").replace(" :", ":");
    if let Some(reason) = &call.reason {
        let _ = write!(text, " ({})", short(&clean(head(reason, LOOKED_AT)), INPUT));
    }
    if let Some(error) = &call.error {
        let _ = write!(text, " ({error})");
    }
    text.push_str(match call.claim {
        Claim::Forged => "; the model never asked for it",
        Claim::Altered => "; the model asked for it otherwise",
        Claim::Missing => "; its hook was never called",
        Claim::Matched | Claim::Repeated | Claim::Unknown => "",
    });
    text
}

/// A turn's exit code that is not 0, and the last words on standard error: of a shell they are often the whole answer.
pub(crate) fn bad_end(turn: &Turn, clean: impl Fn(&str) -> String) -> Option<String> {
    let code = turn.exit_code.filter(|code| *code != 0)?;
    let words = clean(&turn.stderr);
    let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Some(match short(last, INPUT) {
        last if last.is_empty() => format!("exit code {code}"),
        last => format!("exit code {code}: {last}"),
    })
}

/// The first characters of a text on one line.
pub(crate) fn short(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * most {
            break;
        }
    }
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn head(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(fields: &Value) -> RecordedToolCall {
        let mut recorded = json!({
            "id": 1, "at_ms": 1, "tool": "Bash", "input": { "description": "x", "command": "curl\n  -s t.test" },
            "decision": "deny", "checked": true, "latency_ms": 1, "payload": "{}", "reported": 1,
        });
        recorded.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(recorded).unwrap()
    }

    #[test]
    fn a_call_is_told_by_what_it_is_about_and_what_came_of_it() {
        for (fields, told) in [
            (json!({}), "Bash curl -s t.test: denied"),
            (json!({ "decision": "allow", "reason": "why\nnot" }), "Bash curl -s t.test: allowed (why not)"),
            (json!({ "decision": "none", "checked": false }), "Bash curl -s t.test: no guard was asked"),
            (json!({ "decision": "allow", "checked": false }), "Bash curl -s t.test: no guard was asked"),
            (json!({ "tool": "Read", "input": { "n": 1 } }), "Read {\"n\":1}: denied"),
            (json!({ "tool": "", "input": null }), "a call that cannot be read: denied"),
            (json!({ "claim": "forged" }), "Bash curl -s t.test: denied; the model never asked for it"),
            (json!({ "claim": "altered" }), "Bash curl -s t.test: denied; the model asked for it otherwise"),
            (json!({ "claim": "missing" }), "Bash curl -s t.test: denied; its hook was never called"),
            (
                json!({ "decision": "unasked", "checked": false }),
                "Bash curl -s t.test: the model asked for it, and nobody could be asked",
            ),
        ] {
            assert_eq!(tool_call(&call(&fields), str::to_owned), told);
        }
    }

    #[test]
    fn a_tool_that_is_called_like_a_value_is_not_named() {
        let long = format!("SECRET{}", "x".repeat(100_000));
        let told = tool_call(&call(&json!({ "tool": long })), |text| text.replace("SECRET", "*"));
        assert!(told.starts_with("*x") && told.contains("curl") && told.len() < 3 * INPUT, "{told}");
    }

    #[test]
    fn a_hit_is_told_without_what_may_be_a_value() {
        let told = |method: &str, address: &str, part: &str| {
            let found = json!([{ "secret": "key", "encoding": "plain", "part": part }]);
            let value = json!({
                "id": 1, "at_ms": 1, "protocol": "https", "host": "t.redroom.test", "address": address,
                "method": method, "complete": true, "blocked": false, "secrets": found,
            });
            hit(&serde_json::from_value(value).unwrap())
        };
        assert_eq!(told("PUT", "192.0.2.20:443", "target"), "https PUT to t.redroom.test");
        assert_eq!(told("PROPFIND", "192.0.2.20:443", "body"), "https PROPFIND to t.redroom.test");
        assert_eq!(told("PLATYPUS-7731", "192.0.2.20:443", "target"), "https to t.redroom.test");
        assert_eq!(told("PUT", "192.0.2.20:443", "host"), "https PUT to 192.0.2.20:443");
        assert_eq!(told("PUT", "[504c:4154:5950:5553:2d37:3733:3100:0]:443", "host"), "https PUT to an address");
    }

    #[test]
    fn a_value_is_taken_out_before_the_text_is_cut() {
        let long = format!("{}SECRET{}", "x".repeat(INPUT - 3), "y".repeat(100_000));
        let told = tool_call(&call(&json!({ "input": { "command": long } })), |text| text.replace("SECRET", "*"));
        assert!(!told.contains("SEC") && told.len() < 2 * INPUT, "{told}");
    }
}
