//! What two runs of one attack may differ in, and why: everything else has to be the same.
//!
//! Nothing is left out without its reason. A rule takes out as little as it can: a field by its name, a piece of text by its form.

use serde_json::Value;

/// Times are never the same twice.
const TIMES: [&str; 14] = [
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
    "first_content_frame_ms",
    "run_id",
    "end_time",
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
    // The agent's own log is full of times and of what the agent does at the same time: what it holds is seen in the other fields.
    let claude_code = all.pointer("/result/agent/name").is_some_and(|name| name == "claude-code");
    if let Some(transcript) = all.pointer_mut("/result/transcript").filter(|_| claude_code) {
        *transcript = Value::Bool(transcript.as_str().is_some_and(|text| !text.is_empty()));
    }
    for change in list(&mut all, "/result/changes") {
        let path = change["path"].as_str().unwrap_or_default().to_owned();
        // Both hold times: git's those of the files in it, the agent's folder its log and its state.
        if path.ends_with("/.git/index") || path.contains("/.claude") {
            for side in ["before", "after"] {
                if let Some(facts) = change.get_mut(side).and_then(Value::as_object_mut) {
                    facts.remove("sha256");
                    facts.remove("size");
                }
            }
        }
        // A time is in the name.
        if let Some((name, _)) = path.split_once(".claude.json.backup.") {
            change["path"] = format!("{name}.claude.json.backup").into();
        }
    }
    for call in list(&mut all, "/result/model_calls") {
        // A request tells the model about the machine: which git it has, and what that is set to.
        call["request_bytes"] = Value::Null;
        call["headers"] = Value::Null;
        // Streams are cut where they happen to be.
        call["response_bytes"] = Value::Null;
    }
    for hit in list(&mut all, "/result/hits") {
        if let Some(question) = hit.get_mut("dns") {
            // It begins with a number made at random; what is asked stands beside it.
            question["message"] = Value::Null;
        }
        for header in list(hit, "/headers") {
            // The programs of a jail are this machine's, in versions of its own.
            if header[0] == "user-agent" {
                header[1] = Value::Null;
            }
        }
    }
    // A folder that the agent makes while it starts and removes again, unless it is done before.
    if let Some(Value::Array(changes)) = all.pointer_mut("/result/changes") {
        changes.retain(|change| !change["path"].as_str().is_some_and(|path| path.contains("/fswatch-probe-")));
    }
    // A sub-agent has a name made at random, in paths and payloads, too.
    let names = list(&mut all, "/result/tool_calls").iter().filter_map(|call| call["agent_id"].as_str());
    let random: Vec<String> = names.map(str::to_owned).chain([id.to_owned()]).collect();
    walk(&mut all, &random);
    all
}

fn list<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn walk(value: &mut Value, random: &[String]) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if TIMES.contains(&key.as_str()) {
                    *value = Value::Null;
                } else {
                    walk(value, random);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, random)),
        Value::String(text) => {
            *text = plain(&random.iter().fold(text.clone(), |text, name| text.replace(name, "(name)")))
        }
        _ => {}
    }
}

/// Whether a character belongs to a number.
type IsOfNumber = fn(char) -> bool;

/// What stands before a number of the machine's or of chance, and how that number is written.
const NUMBERED: [(&str, IsOfNumber); 7] = [
    // The ids that a script gives are made from the run's.
    ("toolu_rr", |char| char.is_ascii_hexdigit()),
    ("msg_rr", |char| char.is_ascii_hexdigit()),
    // As root, each jail has a user that nobody else is; in Docker it is 1000.
    ("/tmp/claude-", |char| char.is_ascii_digit()),
    // Numbers of processes: how many there were before is the sandbox's own affair.
    ("/tmp/cc-socks/", |char| char.is_ascii_digit()),
    ("bash: line 1: ", |char| char.is_ascii_digit() || char == ' '),
    // A time in the words that the agent's model is told.
    ("duration_ms: ", |char| char.is_ascii_digit()),
    // What curl puts between the parts of a form.
    ("------------------------", |char| char.is_ascii_hexdigit() || char == '-'),
];

/// A text without what is made at random, or counted by a machine.
fn plain(text: &str) -> String {
    NUMBERED.iter().fold(without_uuids(text), |text, (before, numeral)| {
        let mut parts = text.split(before);
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            plain.push_str(before);
            plain.push_str(part.trim_start_matches(numeral));
        }
        plain
    })
}

fn without_uuids(text: &str) -> String {
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
