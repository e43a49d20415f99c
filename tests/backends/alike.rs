//! What two runs of one attack may differ in, and why: everything else has to be the same.
//!
//! Nothing is left out without its reason. A rule takes out as little as it can: a field by its name, a piece of text by its form.

use serde_json::Value;

/// Times are never the same twice.
const TIMES: [&str; 11] = [
    "at_ms",
    "duration_ms",
    "latency_ms",
    "timestamp",
    "duration_api_ms",
    "ttft_ms",
    "ttft_stream_ms",
    "time_to_request_ms",
    "durationMs",
    "durationSeconds",
    "totalDurationMs",
];
/// Which backend it was, and what of it is best effort, is what a comparison of backends is not about; the folder of the evidence is
/// a run's own. The files in it are compared.
const OF_THE_BACKEND: [&str; 3] = ["/result/backend", "/result/best_effort", "/result/artifacts/folder"];

/// A run's evidence without what may differ.
pub(crate) fn normal(mut all: Value, id: &str) -> Value {
    for pointer in OF_THE_BACKEND {
        if let Some(value) = all.pointer_mut(pointer) {
            *value = Value::Null;
        }
    }
    if let Some(Value::Object(result)) = all.pointer_mut("/result") {
        // A backend that holds everything leaves the field out.
        result.remove("best_effort");
    }
    for change in list(&mut all, "/result/changes") {
        let path = change["path"].as_str().unwrap_or_default().to_owned();
        // It holds the times and numbers of the files that it lists.
        if path.ends_with("/.git/index") {
            for side in ["before", "after"] {
                if let Some(facts) = change.get_mut(side).and_then(Value::as_object_mut) {
                    facts.remove("sha256");
                }
            }
        }
    }
    for hit in list(&mut all, "/result/hits") {
        for header in list(hit, "/headers") {
            // The programs of a jail are this machine's, in versions of its own.
            if header[0] == "user-agent" {
                header[1] = Value::Null;
            }
        }
    }
    walk(&mut all, id);
    all
}

fn list<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn walk(value: &mut Value, id: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if TIMES.contains(&key.as_str()) {
                    *value = Value::Null;
                } else {
                    walk(value, id);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, id)),
        Value::String(text) => *text = plain(&text.replace(id, "(run)")),
        _ => {}
    }
}

/// A text without what is made at random: UUIDs.
fn plain(text: &str) -> String {
    const UUID: usize = 36;
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if rest.get(..UUID).is_some_and(is_uuid) {
            plain.push_str("(uuid)");
            rest = &rest[UUID..];
        } else {
            plain.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    plain
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
