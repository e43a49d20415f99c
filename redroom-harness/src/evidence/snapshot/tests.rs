use serde_json::json;

use super::*;

fn hit(id: u64, protocol: &str, host: &str, path: &str) -> Value {
    json!({
        "id": id, "at_ms": 7 * id, "protocol": protocol, "host": host, "address": format!("192.0.2.20:{}", 40000 + id),
        "transport": "tcp", "method": if protocol == "dns" { "" } else { "GET" }, "path": path, "body": "", "body_bytes": 0,
        "headers": [["user-agent", format!("curl/{id}")]], "truncated": false, "complete": true, "blocked": false,
    })
}

fn change(path: &str) -> Value {
    json!({ "path": path, "kind": "added", "in_workspace": path.starts_with("/workspace"), "after": null })
}

fn result(agent: &str, hits: Vec<Value>, changes: Vec<Value>) -> RunResult {
    let mut result: RunResult = serde_json::from_value(json!({
        "schema_version": 1, "id": "0b6e2a44-6a3c-4a58-9d0b-0d7b8a3a9f10", "attack": "a::b",
        "agent": { "name": agent, "version": "2.1.332", "model": null },
        "backend": { "name": "docker", "isolated": true, "why": "" },
        "turns": [{ "index": 0, "message": "Go with PLATYPUS-7731", "final_text": "done", "duration_ms": 17, "exit_code": 0 }],
        "transcript": "PLATYPUS-7731", "tool_calls": [], "hits": hits, "model_calls": [], "changes": changes,
        "diff": "+PLATYPUS-7731\n+x\n", "visited_pages": [], "unvisited_pages": [],
        "sightings": [
            { "secret": "token", "encoding": "plain", "where": "changes", "ref": "/home/agent/.claude/log.jsonl" },
            { "secret": "token", "encoding": "plain", "where": "changes", "ref": "/workspace/copy" },
            { "secret": "token", "encoding": "plain", "where": "model_request", "ref": "2", "part": "body" },
            { "secret": "token", "encoding": "plain", "where": "model_request", "ref": "3", "part": "body" },
        ],
        "errors": [
            { "by": "agent", "code": "turn_failed", "detail": "after 12 s" },
            { "by": "agent", "code": "turn_failed", "detail": "after 13 s" },
        ],
        "artifacts": { "folder": "/evidence/a", "files": [] },
    }))
    .unwrap();
    result.known_secrets = KnownSecrets::new([(&"token".to_owned(), &b"PLATYPUS-7731".to_vec())]);
    result
}

fn json_of(snapshot: &RunSnapshot) -> Value {
    serde_json::to_value(snapshot).unwrap()
}

#[test]
fn order_and_numbers_of_what_came_make_no_difference_and_what_came_does() {
    let (a, b) = (|id| hit(id, "https", "a.redroom.test", "/"), |id| hit(id, "http", "b.redroom.test", "/x"));
    let name = |id| hit(id, "dns", "a.redroom.test", "");
    let one = result("shell", vec![name(1), a(2), b(3)], vec![change("/workspace/y"), change("/workspace/x")]);
    let other =
        result("shell", vec![b(4), name(5), name(6), a(9)], vec![change("/workspace/x"), change("/workspace/y")]);
    assert_eq!(one.snapshot(), other.snapshot());
    assert_eq!(json_of(&one.snapshot())["hits"].as_array().unwrap().len(), 3);
    // The same page twice is twice.
    let twice = result("shell", vec![name(1), a(2), a(3), b(4)], vec![change("/workspace/x"), change("/workspace/y")]);
    assert_ne!(one.snapshot(), twice.snapshot());
    let raw = |port: u16| {
        let mut raw = hit(1, "other", "10.0.0.1", "");
        raw["address"] = format!("10.0.0.1:{port}").into();
        result("shell", vec![raw], vec![]).snapshot()
    };
    assert_ne!(raw(4444), raw(4445));
}

#[test]
fn no_value_of_a_secret_is_in_it_and_what_went_wrong_twice_stands_once() {
    let whole = json_of(&result("shell", vec![], vec![]).snapshot());
    assert!(!whole.to_string().contains("PLATYPUS"), "{whole}");
    assert_eq!(whole["turns"][0], json!({ "message": "Go with [token]", "final_text": "done", "exit_code": 0 }));
    assert_eq!(whole["diff"], json!(["+[token]", "+x"]));
    assert_eq!(whole["errors"], json!([{ "by": "agent", "code": "turn_failed" }]));
    assert_eq!(whole["sightings"].as_array().unwrap().len(), 3, "{whole}");
}

#[test]
fn what_a_model_request_asks_for_names_no_secret() {
    let mut result = result("shell", vec![], vec![]);
    result.model_calls = serde_json::from_value(json!([{
        "id": 1, "at_ms": 1, "kind": "other", "method": "POST", "path": "/v1/messages", "headers": [],
        "request_bytes": 1, "complete": true,
        "asks": [{ "kind": "mcp_servers", "name": "https://mcp.example/?t=PLATYPUS-7731" }],
    }]))
    .unwrap();
    let whole = json_of(&result.snapshot());
    assert_eq!(
        whole["model_calls"][0]["asks"],
        json!([{ "kind": "mcp_servers", "name": "https://mcp.example/?t=[token]" }])
    );
}

#[test]
fn a_name_that_holds_a_secret_over_its_labels_is_not_shown() {
    let hosts = ["platy.pus-7731.t.redroom.test", "504c415459.5055532d37373331.t.redroom.test", "a.redroom.test"];
    let hits = hosts.iter().map(|host| hit(1, "dns", host, "")).collect();
    let whole = json_of(&result("shell", hits, vec![]).snapshot());
    let shown: Vec<_> = whole["hits"].as_array().unwrap().iter().map(|hit| hit["host"].as_str().unwrap()).collect();
    assert_eq!(shown, ["[holds token]", "[token].t.redroom.test", "a.redroom.test"]);
}

#[test]
fn a_diff_shows_no_secret_of_several_lines() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n-----END KEY-----";
    let file = |name: &str, lines: &str| {
        format!("diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1,2 @@\n{lines}")
    };
    let signed = |sign: &str, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key);
    let wrapped: Vec<&str> = packed.as_bytes().chunks(60).map(|line| str::from_utf8(line).unwrap()).collect();
    let mut result = result("shell", vec![], vec![]);
    result.known_secrets = KnownSecrets::new([(&"key".to_owned(), &key.as_bytes().to_vec())]);
    result.diff = [
        file("added", &signed("+", key)),
        file("deleted", &signed("-", key)),
        file("around", &format!("-x\n{}+y\n", signed(" ", key))),
        file("between", &format!(" -----BEGIN KEY-----\n-x\n{}", signed("+", key.split_once('\n').unwrap().1))),
        file("wrapped", &signed("+", &wrapped.join("\n"))),
        file("other", "-x\n+y\n"),
    ]
    .concat();
    let whole = json_of(&result.snapshot());
    let shown: Vec<_> = whole["diff"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let held = ["added", "deleted", "around", "between", "wrapped"];
    let held = held.iter().flat_map(|name| [format!("diff --git a/{name} b/{name}"), "[holds key]".to_owned()]);
    let other = file("other", "-x\n+y\n");
    assert_eq!(shown, held.chain(other.lines().map(str::to_owned)).collect::<Vec<_>>());
}

#[test]
fn what_an_agent_keeps_for_itself_is_left_out_and_the_workspace_never() {
    let paths = [
        "/home/agent/.claude/log.jsonl",
        "/tmp/claude-1000/x",
        "/home/agent/.bashrc",
        "/workspace/.claude/settings.json",
    ];
    let shown = |agent: &str| {
        let snapshot = result(agent, vec![], paths.iter().map(|path| change(path)).collect()).snapshot();
        let changes = json_of(&snapshot)["changes"].as_array().unwrap().clone();
        changes.iter().map(|change| change["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown("claude-code"), ["/home/agent/.bashrc", "/workspace/.claude/settings.json"]);
    assert_eq!(shown("mine").len(), 4);
    let all = result("mine", vec![], paths.iter().map(|path| change(path)).collect()).snapshot();
    let less = json_of(&all.without_changes_under("/home/agent/.claude/"));
    assert_eq!(
        (less["changes"].as_array().unwrap().len(), less["sightings"].as_array().unwrap().len()),
        (3, 2),
        "{less}"
    );
}

#[test]
fn of_a_result_that_was_read_back_no_text_is_shown() {
    let read: RunResult =
        serde_json::from_value(serde_json::to_value(result("shell", vec![], vec![])).unwrap()).unwrap();
    let whole = json_of(&read.snapshot());
    assert_eq!((&whole["turns"][0]["message"], &whole["diff"]), (&json!("[text]"), &json!(["[text]"])));
    assert!(!whole.to_string().contains("PLATYPUS"), "{whole}");
}
