//! Guards seen from the agent's hook: what is asked, what is answered, and what is recorded.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::Instant;

use super::verdict::Verdict;
use super::{Decision, Guard, IntoToolCallCheck, PATIENCE, RecordedDecision, Ruling, ToolCall, ToolCallCheck};
use crate::error::By;
use crate::outbound::loopback::{Server, nobody, ok};
use crate::outbound::{Body, Client, Proxies, full};

const DENY: &str = r#" {"hookSpecificOutput": {"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"R"}} "#;

fn payload() -> String {
    r#"{"session_id": "s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"id"},"tool_use_id":"toolu_1","new":1.50}"#
        .to_owned()
}

fn open(check: impl IntoToolCallCheck) -> Guard {
    check.into_tool_call_check().open(&Client::new(Proxies::none()).unwrap()).unwrap()
}

async fn ask(check: impl IntoToolCallCheck) -> Ruling {
    open(check).ask("run-1", payload().as_bytes()).await
}

/// Denied in the agent's form, by redroom, with this code.
fn assert_denied(ruling: &Ruling, code: &str) {
    let error = ruling.error.as_ref().expect("an error");
    assert_eq!((error.code(), ruling.decision), (code, RecordedDecision::Deny), "{error}");
    let answer: Value = serde_json::from_slice(&ruling.answer).unwrap();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(
        (output["hookEventName"].as_str(), output["permissionDecision"].as_str()),
        (Some("PreToolUse"), Some("deny"))
    );
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    assert!(reason.contains("redroom") && reason.contains(code), "{reason}");
    assert!(!reason.contains("127.0.0.1"), "the agent is told where the guard is: {reason}");
    assert!(!format!("{ruling:?}").contains("hunter2"), "a header's value shows");
}

#[tokio::test]
async fn a_service_gets_the_payload_as_it_is_and_the_agent_the_answer_as_it_is() {
    let server = Server::noting(|| ok(DENY)).await;
    let check = ToolCallCheck::url(format!("{}/pre?tenant=1", server.url)).header("authorization", "Bearer hunter2");
    let ruling = ask(check).await;
    assert_eq!((ruling.answer.as_ref(), ruling.decision), (DENY.as_bytes(), RecordedDecision::Deny));
    assert_eq!((ruling.reason.as_deref(), ruling.checked, &ruling.error), (Some("R"), true, &None));
    let seen = server.seen();
    assert_eq!(
        (seen.len(), seen[0].method().as_str(), seen[0].uri().to_string().as_str()),
        (1, "POST", "/pre?tenant=1")
    );
    assert_eq!(seen[0].body(), payload().as_bytes());
    for (name, value) in
        [("authorization", "Bearer hunter2"), ("x-redroom-run", "run-1"), ("content-type", "application/json")]
    {
        assert_eq!(seen[0].headers()[name], value);
    }
}

#[tokio::test]
async fn what_is_no_answer_denies() {
    fn status(code: u16) -> Response<Body> {
        let mut response = ok("{}");
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        response
    }
    let large = || Response::new(full(format!("{{\"a\":\"{}\"}}", "x".repeat(1_000_000))));
    for (answer, code) in [
        (Box::new(|| status(500)) as Box<dyn Fn() -> Response<Body> + Send + Sync>, "http_500"),
        (Box::new(|| status(302)), "http_302"),
        (Box::new(|| status(403)), "http_403"),
        (Box::new(|| ok("")), "invalid_response"),
        (Box::new(|| ok("[]")), "invalid_response"),
        (Box::new(|| ok("allow")), "invalid_response"),
        (Box::new(|| ok(r#"{"decision":"deny"}"#)), "invalid_response"),
        (Box::new(large), "response_too_large"),
    ] {
        let answer = Arc::new(answer);
        let server = Server::noting(move || answer()).await;
        let ruling = ask(ToolCallCheck::url(&server.url).header("x-key", "hunter2")).await;
        assert_denied(&ruling, code);
        assert!(ruling.checked);
        let error = ruling.error.unwrap();
        assert_eq!(
            (error.by(), error.call().unwrap().url.as_deref()),
            (By::ToolCallCheck, Some(&*format!("{}/", server.url)))
        );
        assert!(error.call().unwrap().duration_ms.is_some());
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_or_hangs_up_denies() {
    assert_denied(&ask(ToolCallCheck::url(nobody().await)).await, "network_error");
    let mute = Server::raw(b"", true).await;
    assert_denied(&ask(ToolCallCheck::url(&mute.url)).await, "network_error");
    let cut = Server::raw(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}", true).await;
    assert_denied(&ask(ToolCallCheck::url(&cut.url)).await, "network_error");
}

/// Long enough for anything on this machine that answers at all.
const SHORT: Duration = Duration::from_secs(1);

async fn ask_shortly(check: impl IntoToolCallCheck) -> Ruling {
    let begun = Instant::now();
    let ruling = open(check).with_patience(SHORT).ask("run-1", payload().as_bytes()).await;
    assert!(ruling.latency >= SHORT && begun.elapsed() < 20 * SHORT, "{:?}", ruling.latency);
    ruling
}

#[test]
fn a_guard_has_twenty_five_seconds() {
    let guard = open(ToolCallCheck::none());
    assert_eq!((guard.patience, PATIENCE), (PATIENCE, Duration::from_secs(25)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_guard_that_takes_too_long_denies_in_whatever_way_it_does() {
    let drips = Server::dripping(b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n", SHORT / 8).await;
    assert_denied(&ask_shortly(ToolCallCheck::url(&drips.url)).await, "timeout");
    let silent = Server::raw(b"", false).await;
    assert_denied(&ask_shortly(ToolCallCheck::url(&silent.url)).await, "timeout");
    let half = Server::raw(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}", false).await;
    assert_denied(&ask_shortly(ToolCallCheck::url(&half.url)).await, "timeout");
    let (dropped, is_dropped) = tokio::sync::oneshot::channel::<()>();
    let dropped = Arc::new(std::sync::Mutex::new(Some(dropped)));
    let endless = move |_: ToolCall| {
        let held = dropped.lock().unwrap().take();
        async move {
            let decision = std::future::pending::<Decision>().await;
            drop(held);
            decision
        }
    };
    assert_denied(&ask_shortly(endless).await, "timeout");
    is_dropped.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_function_that_blocks_its_thread_holds_up_neither_the_clock_nor_other_calls() {
    let (_open, door) = std::sync::mpsc::channel::<()>();
    let door = Arc::new(std::sync::Mutex::new(Some(door)));
    let guard = open(move |call: ToolCall| {
        let door = if call.tool_use_id == "toolu_1" { door.lock().unwrap().take() } else { None };
        async move {
            if let Some(door) = door {
                let _ = door.recv_timeout(30 * SHORT);
            }
            Decision::allow()
        }
    });
    let guard = guard.with_patience(SHORT);
    let (blocked, other) = (payload(), payload().replace("toolu_1", "toolu_2"));
    let (blocked, other) = tokio::join!(guard.ask("run-1", blocked.as_bytes()), guard.ask("run-1", other.as_bytes()));
    assert_denied(&blocked, "timeout");
    assert!(blocked.latency < 20 * SHORT, "{:?}", blocked.latency);
    assert_eq!(other.decision, RecordedDecision::Allow);
    drop(_open);
}

#[tokio::test]
async fn a_service_that_nobody_can_trust_is_not_asked() {
    let (server, _certificate) = Server::tls(|_| "{}".to_owned()).await;
    let ruling = ask(ToolCallCheck::url(&server.url).header("x-key", "hunter2")).await;
    assert_denied(&ruling, "network_error");
    assert!(ruling.error.unwrap().detail().contains("certificate"));
}

#[tokio::test]
async fn what_the_agent_does_not_hear_of_an_answer_is_told() {
    let server = Server::noting(|| ok(r#"{"permissionDecision":"deny"}"#)).await;
    let ruling = ask(ToolCallCheck::url(&server.url)).await;
    assert_eq!((ruling.decision, ruling.checked, &ruling.error), (RecordedDecision::None, true, &None));
    assert!(ruling.unheard.unwrap().contains("permissionDecision"));
    let server = Server::noting(|| ok(r#"{"decision":"approve","continue":false}"#)).await;
    let ruling = ask(ToolCallCheck::url(&server.url)).await;
    assert_eq!((ruling.decision, ruling.ends_turn, ruling.unheard), (RecordedDecision::Allow, true, None));
}

#[tokio::test]
async fn a_function_sees_the_call_and_decides() {
    async fn guard(call: ToolCall) -> Decision {
        assert_eq!(call.payload["new"], json!(1.5));
        Decision::deny(format!("{} may not {}", call.tool_name, call.tool_input["command"]))
    }
    let ruling = ask(guard).await;
    assert_eq!((ruling.decision, ruling.reason.as_deref()), (RecordedDecision::Deny, Some("Bash may not \"id\"")));
    assert!(ruling.checked && ruling.error.is_none());
}

#[tokio::test]
async fn a_guard_that_panics_denies() {
    let ruling = ask(async |_: ToolCall| -> Decision { panic!("oops") }).await;
    assert_denied(&ruling, "guard_panicked");
    assert!(ruling.error.unwrap().detail().contains("oops"));
}

#[tokio::test]
async fn no_guard_means_allowed_and_not_checked() {
    let ruling = ask(ToolCallCheck::none()).await;
    assert_eq!((ruling.decision, ruling.checked, &ruling.error), (RecordedDecision::Allow, false, &None));
    assert!(std::str::from_utf8(&ruling.answer).unwrap().contains(r#""permissionDecision":"allow""#));
}

#[tokio::test]
async fn payloads_that_are_none_are_denied_by_the_sidecar_even_without_a_guard() {
    let guard = open(ToolCallCheck::none());
    for (payload, code) in [
        ("{}".to_owned(), "invalid_payload"),
        ("not json".to_owned(), "invalid_payload"),
        (format!("{}{}", payload(), " ".repeat(1_000_000)), "payload_too_large"),
    ] {
        let ruling = guard.ask("run-1", payload.as_bytes()).await;
        assert_denied(&ruling, code);
        assert_eq!((ruling.error.unwrap().by(), ruling.checked), (By::Sidecar, false));
    }
}

#[tokio::test]
async fn hooks_of_other_kinds_get_no_opinion_and_no_guard_is_asked() {
    let guard = open(async |_: ToolCall| -> Decision { panic!("asked") });
    let prompt = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hi" }).to_string();
    let ruling = guard.ask("run-1", prompt.as_bytes()).await;
    assert_eq!((ruling.answer.as_ref(), ruling.decision), (&b"{}"[..], RecordedDecision::None));
    assert!(!ruling.checked && ruling.error.is_none());
}

#[tokio::test]
async fn calls_are_asked_in_parallel() {
    let all = Arc::new(Barrier::new(8));
    let guard = open(move |_: ToolCall| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Decision::allow()
        }
    });
    let payload = payload();
    let rulings = futures_util::future::join_all((0..8).map(|_| guard.ask("run-1", payload.as_bytes()))).await;
    assert!(rulings.iter().all(|ruling| ruling.decision == RecordedDecision::Allow));
}

#[test]
fn an_address_that_cannot_be_asked_is_an_error_at_the_start() {
    let client = Client::new(Proxies::none()).unwrap();
    for (check, says) in [
        (ToolCallCheck::url("guard.example.com"), "is not a URL"),
        (ToolCallCheck::url("https://me:hunter2@guard.example.com"), "give a header"),
        (ToolCallCheck::url("https://guard.example.com").header("x-key", "hunter2\r\n"), "x-key"),
    ] {
        let check = check.into_tool_call_check();
        let error = check.open(&client).unwrap_err();
        assert_eq!((error.code(), error.by()), ("invalid_tool_call_check", By::ToolCallCheck));
        assert!(error.detail().contains(says) && !error.detail().contains("hunter2"), "{error}");
    }
}

#[test]
fn header_values_do_not_show_in_debug_output() {
    let check =
        ToolCallCheck::url("https://guard.example.com").header("authorization", "hunter2").into_tool_call_check();
    assert!(!format!("{check:?}").contains("hunter2"));
    assert_eq!(check.secrets(), ["hunter2"]);
}

#[test]
fn the_page_says_what_answers_mean() {
    let page = include_str!("../../../docs/guards.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `{"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 15);
    for row in rows {
        let [answer, recorded, tool] = row[..] else { panic!("{row:?}") };
        let verdict = Verdict::read(answer.trim_matches('`').as_bytes());
        let decision = verdict.as_ref().map_or(RecordedDecision::Deny, |verdict| verdict.decision);
        let word = serde_json::to_value(decision).unwrap();
        let ignored = verdict.as_ref().is_ok_and(|verdict| verdict.unheard.is_some());
        let remark = if verdict.is_err() {
            ", with an error"
        } else if ignored {
            ", ignored"
        } else {
            ""
        };
        assert_eq!(recorded, format!("`{}`{remark}", word.as_str().unwrap()), "{answer}");
        assert_eq!(tool.trim_start_matches("**").starts_with("runs"), decision.runs(), "{answer}");
    }
    for code in ["timeout", "network_error", "response_too_large", "invalid_response", "guard_panicked", super::FLOOD] {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }
}
