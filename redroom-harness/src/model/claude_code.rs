//! A script played to the real Claude Code, where `REDROOM_CLAUDE_CODE` names its program. It runs without a sandbox: the
//! script is the only model it can reach, and it does nothing but what is written here.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{Answer, IntoModel as _, MessagesApi, ModelCall, Script, Upstream as _};
use crate::outbound::loopback::Server;
use crate::outbound::{Body, full};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// What the agent asked: whose conversation, whether streamed, how many tools were on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    path: String,
    sub_agent: bool,
    stream: bool,
    tools: usize,
}

async fn serve(script: Script) -> (Server, Arc<Mutex<Vec<Asked>>>) {
    let api = Arc::new(MessagesApi::new(script.into_model()));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let server = Server::start(move |request| answer(Arc::clone(&api), Arc::clone(&notes), request)).await;
    (server, asked)
}

async fn answer(api: Arc<MessagesApi>, asked: Arc<Mutex<Vec<Asked>>>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let read: Value = serde_json::from_slice(&body).unwrap_or_default();
    asked.lock().unwrap().push(Asked {
        path: head.uri.path().to_owned(),
        sub_agent: head.headers.contains_key(HeaderName::from_static("x-claude-code-agent-id")),
        stream: read["stream"] == true,
        tools: read["tools"].as_array().map_or(0, Vec::len),
    });
    let target = head.uri.path_and_query().unwrap().to_string();
    let call = ModelCall {
        run: "run-1".into(),
        method: head.method,
        target,
        headers: head.headers,
        withheld: http::HeaderMap::new(),
        body: full(body),
    };
    api.answer(call).await.unwrap_or_else(|error| {
        let mut response = Response::new(full(error.to_string()));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    })
}

/// One turn; gives back what the agent printed.
async fn turn(program: &str, url: &str, home: &std::path::Path, message: &str, resume: bool) -> Vec<Value> {
    let mut child = tokio::process::Command::new(program)
        .args(["-p", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"])
        .args(["--dangerously-skip-permissions", "--settings", r#"{"skipWebFetchPreflight":true}"#])
        .args([if resume { "--resume" } else { "--session-id" }, SESSION])
        .env_clear()
        .envs(["PATH", "NODE_EXTRA_CA_CERTS"].into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?))))
        .envs([("ANTHROPIC_BASE_URL", url), ("ANTHROPIC_API_KEY", "placeholder"), ("IS_SANDBOX", "1")])
        .envs([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")])
        .env("HOME", home)
        .current_dir(home.join("workspace"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(message.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The tool results and the final texts, in order.
fn results(events: &[Value]) -> Vec<String> {
    let blocks = events.iter().flat_map(|event| event["message"]["content"].as_array().into_iter().flatten());
    let results = blocks.filter(|block| block["type"] == "tool_result").map(|block| match &block["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let end = events.iter().filter(|event| event["type"] == "result").map(|event| event["result"].to_string());
    results.chain(end).collect()
}

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "a step" })
}

#[tokio::test]
#[ignore = "needs Claude Code: REDROOM_CLAUDE_CODE names its program"]
async fn twenty_steps_are_taken_one_by_one_and_never_asked_for_again() {
    let program = std::env::var("REDROOM_CLAUDE_CODE").expect("REDROOM_CLAUDE_CODE names the program");
    let page = std::env::var("REDROOM_CLAUDE_CODE_PAGE").unwrap_or_else(|_| "https://127.0.0.1:9/".to_owned());
    let mut script = Script::new()
        .call("Bash", bash("echo one"))
        .step(Answer::say("Caf\u{e9} \u{1f40d}").and_call("Bash", bash("printf '%s' '\u{e9}\u{1f40d}\"'")))
        .step(Answer::say("").and_call("Bash", bash("echo after-empty-text")))
        .calls((1..=4).map(|n| ("Bash", bash(&format!("echo parallel-{n}")))))
        .call("Write", json!({ "file_path": "big.txt", "content": "0123456789abcde\n".repeat(65_536) }))
        .call("Bash", bash("wc -c < big.txt"))
        .call("NoSuchTool", json!({}))
        .call("Bash", json!({}))
        .call("Agent", json!({
            "description": "a look", "subagent_type": "general-purpose", "prompt": "REVIEW it", "run_in_background": false,
        }))
        .call("WebFetch", json!({ "url": page, "prompt": "What does it say?" }))
        .respond(|conversation| {
            Answer::call("Bash", bash(&format!("echo followed-{}", conversation.last_result().len().min(1))))
        });
    for step in 12..=18 {
        script = script.call("Bash", bash(&format!("echo step-{step}")));
    }
    script =
        script.say("").say("second turn").track("REVIEW", Script::new().call("Bash", bash("echo sub")).say("looked"));
    let mut sequences = Vec::new();
    for _ in 0..10 {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("workspace")).unwrap();
        let (server, asked) = serve(script.clone()).await;
        let first = results(&turn(&program, &server.url, home.path(), "begin with REVIEW", false).await);
        let second = results(&turn(&program, &server.url, home.path(), "go on", true).await);
        let asked = asked.lock().unwrap().clone();
        assert!(asked.iter().all(|asked| asked.stream && asked.path == "/v1/messages"), "{asked:#?}");
        let of_main = asked.iter().filter(|asked| !asked.sub_agent && asked.tools > 0).count();
        assert_eq!((of_main, asked.iter().filter(|asked| asked.sub_agent).count()), (20, 2));
        for step in ["one", "\u{e9}\u{1f40d}\"", "after-empty-text", "parallel-4", "1048576", "followed-1", "step-18"] {
            assert!(first.iter().any(|result| result == step), "{step}");
        }
        assert!(first.iter().any(|result| result.contains("looked")));
        assert_eq!(
            (first.last().unwrap().as_str(), second.last().unwrap().as_str()),
            ("\"(no content)\"", "\"second turn\"")
        );
        sequences.push(asked);
    }
    assert!(sequences.iter().all(|sequence| *sequence == sequences[0]), "{sequences:#?}");
}
