//! The tool hook: passed on unchanged, and closed when anything fails.

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Answer, Harness, answer, say};

const TOOL_CALL: &str = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#;

fn post(payload: &str) -> String {
    let length = payload.len();
    format!(
        "POST /hook HTTP/1.1\r\nHost: 192.0.2.1:82\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{payload}"
    )
}

fn body(said: &str) -> &str {
    said.split_once("\r\n\r\n").unwrap().1
}

fn is_denied(said: &str) -> bool {
    let answer: Value = serde_json::from_str(body(said)).unwrap_or_default();
    said.starts_with("HTTP/1.1 200") && answer["hookSpecificOutput"]["permissionDecision"] == "deny"
}

async fn echo(request: Request<Incoming>) -> Answer {
    let generation = request.headers()["redroom-generation"].to_str().unwrap().to_owned();
    let payload = request.into_body().collect().await.unwrap().to_bytes();
    let mut echoed =
        answer(207, Bytes::from(format!("{generation} {} {}", payload.len(), String::from_utf8_lossy(&payload))));
    echoed.headers_mut().insert("content-type", "application/x-odd".parse().unwrap());
    echoed
}

#[tokio::test]
async fn a_payload_and_its_answer_pass_unchanged() {
    let harness = Harness::with(vec![]).await;
    harness.answer_hook(echo);
    let said = say(harness.hook, post(TOOL_CALL)).await;
    assert!(said.starts_with("HTTP/1.1 207") && said.contains("content-type: application/x-odd\r\n"), "{said}");
    assert_eq!(body(&said), format!("1 {} {TOOL_CALL}", TOOL_CALL.len()));
}

#[tokio::test]
async fn a_payload_over_the_limit_is_passed_one_byte_over_it() {
    let harness = Harness::with(vec![]).await;
    harness.answer_hook(echo);
    let mut agent = TcpStream::connect(harness.hook).await.unwrap();
    agent.write_all(post(&"x".repeat(1_500_000)).as_bytes()).await.unwrap();
    let mut said = vec![0; 512];
    agent.read_exact(&mut said).await.unwrap();
    assert!(body(&String::from_utf8(said).unwrap()).starts_with("1 1000001 x"));
}

#[tokio::test]
async fn a_harness_that_cannot_be_asked_means_no() {
    let harness = Harness::with(vec![]).await;
    harness.answer_hook(|_| async {
        let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<http_body::Frame<Bytes>>>(1);
        sender.send(Err(std::io::Error::other("broke off"))).await.unwrap();
        let mut receiver = receiver;
        let frames = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        http::Response::new(http_body_util::StreamBody::new(frames).boxed_unsync())
    });
    let said = say(harness.hook, post(TOOL_CALL)).await;
    assert!(is_denied(&said), "{said}");
    let said = say(harness.hook, post(r#"{"hook_event_name":"UserPromptSubmit"}"#)).await;
    assert_eq!(serde_json::from_str::<Value>(body(&said)).unwrap()["decision"], "block", "{said}");
}

#[tokio::test]
async fn a_slot_without_a_run_says_no() {
    let harness = Harness::vacant().await;
    harness.answer_hook(echo);
    let said = say(harness.hook, post(TOOL_CALL)).await;
    assert!(is_denied(&said), "{said}");
}

#[tokio::test]
async fn what_is_no_hook_call_is_a_hit() {
    let harness = Harness::with(vec![]).await;
    harness.answer_hook(echo);
    let said = say(harness.hook, "GET /hook HTTP/1.1\r\nHost: 192.0.2.1:82\r\nConnection: close\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 404"), "{said}");
    assert_eq!(harness.hit(|hit| hit.complete).await.address, harness.hook);
}

fn post_to(path: &str, payload: &str) -> String {
    post(payload).replacen("POST /hook ", &format!("POST {path} "), 1)
}

#[tokio::test]
async fn what_has_run_is_passed_on_and_whatever_comes_of_it_changes_nothing() {
    let harness = Harness::with(vec![]).await;
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = told.clone();
    harness.answer_hook(move |request| {
        let noted = noted.clone();
        async move {
            let payload = request.into_body().collect().await.unwrap().to_bytes();
            noted.lock().unwrap().push(String::from_utf8_lossy(&payload).into_owned());
            answer(500, Bytes::from_static(b"{\"decision\":\"block\"}"))
        }
    });
    const RAN: &str = r#"{"hook_event_name":"PostToolUse","tool_use_id":"toolu_1"}"#;
    let large =
        format!(r#"{{"hook_event_name":"PostToolUse","tool_response":"{}","tool_use_id":"t"}}"#, "x".repeat(3_000_000));
    for payload in [RAN, &large, "no payload", "", TOOL_CALL, r#"{"hook_event_name":"UserPromptSubmit"}"#] {
        let said = say(harness.hook, post_to("/hook/ran", payload)).await;
        assert!(said.starts_with("HTTP/1.1 200") && body(&said) == "{}", "{said}");
    }
    assert_eq!(*told.lock().unwrap(), [RAN]);
    let vacant = Harness::vacant().await;
    let said = say(vacant.hook, post_to("/hook/ran", RAN)).await;
    assert_eq!(body(&said), "{}");
}
