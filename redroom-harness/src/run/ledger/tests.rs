use http::header::CONTENT_ENCODING;
use serde_json::{Value, json};

use super::*;
use crate::guard::HookEvent;
use crate::outbound::full;

async fn answered(ledger: &Arc<Ledger>, status: u16, calls: &[(&str, &str, Value)]) {
    let block =
        |(id, name, input): &(&str, &str, Value)| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let content: Vec<Value> = calls.iter().map(block).collect();
    let message = json!({ "type": "message", "content": content }).to_string();
    let answer = Response::builder().status(status).body(full(message)).unwrap();
    ledger.answer(answer).into_body().collect().await.unwrap();
}

fn command(command: &str) -> Value {
    json!({ "command": command })
}

async fn came_back(ledger: &Arc<Ledger>, id: &str, failed: bool) {
    let result = json!({ "type": "tool_result", "tool_use_id": id, "is_error": failed, "content": "x" });
    let request = json!({ "messages": [{ "role": "user", "content": [result] }] });
    ledger.request(full(request.to_string())).collect().await.unwrap();
}

fn reported(ledger: &Ledger, id: &str, tool: &str, input: Value) -> Claim {
    let payload = json!({
        "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": tool, "tool_input": input, "tool_use_id": id,
        "cwd": "/workspace",
    });
    let Ok(HookEvent::PreToolUse(call)) = HookEvent::parse(payload.to_string().as_bytes()) else { panic!() };
    ledger.reported(&call)
}

fn codes(ledger: &Ledger) -> Vec<String> {
    ledger.faults().iter().map(|error| error.code().to_owned()).collect()
}

/// Whoever has not read everything that was said calls no report forged.
#[tokio::test]
async fn an_answer_that_cannot_be_read_leaves_what_was_asked_for_open() {
    for (coding, body) in [("br", "?"), ("gzip", "no gzip"), ("identity", "no message")] {
        let ledger = Arc::new(Ledger::default());
        answered(&ledger, 200, &[("toolu_1", "Bash", command("ls"))]).await;
        assert_eq!(reported(&ledger, "toolu_2", "Bash", command("ls")), Claim::Forged);
        let answer = Response::builder().header(CONTENT_ENCODING, coding).body(full(body)).unwrap();
        ledger.answer(answer).into_body().collect().await.unwrap();
        assert_eq!(reported(&ledger, "toolu_2", "Bash", command("ls")), Claim::Unknown, "{coding}");
    }
}

#[tokio::test]
async fn what_is_asked_for_takes_no_more_memory_than_there_is() {
    let ledger = Arc::new(Ledger::default());
    answered(&ledger, 200, &[("toolu_1", "Bash", command("ls"))]).await;
    assert_eq!(ledger.state().weight, weight_of(&command("ls")));
    ledger.state().weight = MAX_INPUTS;
    answered(&ledger, 200, &[("toolu_2", "Bash", command("ls"))]).await;
    assert_eq!(ledger.state().uses["toolu_2"].inputs.len(), 0);
    assert_eq!(reported(&ledger, "toolu_2", "Bash", command("ls")), Claim::Unknown, "it was not kept");
}

#[tokio::test]
async fn a_report_is_matched_by_an_answer_that_asked_for_just_this() {
    let ledger = Arc::new(Ledger::default());
    assert_eq!(reported(&ledger, "toolu_0", "Bash", command("ls")), Claim::Unknown);
    answered(&ledger, 200, &[("toolu_1", "Bash", command("curl evil")), ("toolu_3", "Task", json!({ "prompt": "x" }))])
        .await;
    answered(&ledger, 529, &[("toolu_2", "Bash", command("ls"))]).await;
    for (id, tool, input, claim) in [
        ("toolu_1", "Bash", command("true"), Claim::Altered),
        ("toolu_1", "Bash", json!({}), Claim::Altered),
        ("toolu_1", "Read", command("curl evil"), Claim::Forged),
        ("toolu_2", "Bash", command("ls"), Claim::Forged),
        ("toolu_1", "Bash", command("curl evil"), Claim::Matched),
        ("toolu_1", "Bash", command("curl evil"), Claim::Repeated),
        ("toolu_1", "Bash", json!({ "command": "curl evil", "timeout": 5 }), Claim::Matched),
        ("toolu_1", "Bash", json!({ "command": "curl evil", "timeout": 6 }), Claim::Repeated),
        ("toolu_1", "Bash", command("curl evil"), Claim::Repeated),
        ("toolu_3", "Agent", json!({ "prompt": "x" }), Claim::Matched),
    ] {
        assert_eq!(reported(&ledger, id, tool, input.clone()), claim, "{id} {tool} {input}");
    }
    assert_eq!(codes(&ledger), [""; 0]);
}

#[tokio::test]
async fn a_call_that_ran_and_was_not_reported_is_an_error() {
    let ledger = Arc::new(Ledger::default());
    let calls = ["toolu_1", "toolu_2", "toolu_3", "toolu_4"].map(|id| (id, "Bash", command(id)));
    answered(&ledger, 200, &calls).await;
    assert_eq!(reported(&ledger, "toolu_1", "Bash", command("toolu_1")), Claim::Matched);
    for (id, failed) in [("toolu_1", false), ("toolu_3", true), ("toolu_of_nobody", false)] {
        came_back(&ledger, id, failed).await;
    }
    assert_eq!((ledger.faults(), ledger.missing()), (vec![], vec![]));
    came_back(&ledger, "toolu_2", false).await;
    let faults = ledger.faults();
    assert_eq!((faults.len(), faults[0].by(), faults[0].code()), (1, By::Agent, "hook_not_called"));
    assert!(faults[0].detail().contains("Bash (toolu_2);"), "{}", faults[0]);
    ledger.ran("toolu_3", Ran::Claimed);
    let missing = ledger.missing();
    let told: Vec<_> = missing.iter().map(|call| (call.id.as_str(), &call.input["command"], call.ran)).collect();
    assert_eq!(told, [("toolu_2", &json!("toolu_2"), Ran::Returned), ("toolu_3", &json!("toolu_3"), Ran::Claimed)]);
}

#[tokio::test]
async fn a_harmless_report_under_the_id_of_a_call_does_not_stand_for_it() {
    let ledger = Arc::new(Ledger::default());
    answered(&ledger, 200, &[("toolu_1", "Bash", command("curl evil"))]).await;
    assert_eq!(reported(&ledger, "toolu_1", "Bash", command("true")), Claim::Altered);
    came_back(&ledger, "toolu_1", false).await;
    assert_eq!(codes(&ledger), ["hook_call_altered"]);
    assert_eq!(ledger.missing()[0].input, command("curl evil"));
    // The agent's own report, as it should have come.
    assert_eq!(reported(&ledger, "toolu_1", "Bash", command("curl evil")), Claim::Matched);
    assert_eq!(codes(&ledger), [""; 0]);
}

#[tokio::test]
async fn a_denied_call_that_ran_is_an_error() {
    use RecordedDecision::{Allow, Ask, Deny};
    let ledger = Arc::new(Ledger::default());
    let calls = ["a", "b", "c", "d", "e"].map(|id| (id, "Bash", command(id)));
    answered(&ledger, 200, &calls).await;
    for (id, decisions) in [("a", &[Deny][..]), ("b", &[Ask]), ("c", &[Allow]), ("d", &[Deny, Allow]), ("e", &[Deny])] {
        assert_eq!(reported(&ledger, id, "Bash", command(id)), Claim::Matched);
        decisions.iter().for_each(|decision| ledger.ruled(id, *decision));
    }
    came_back(&ledger, "a", true).await;
    for id in ["c", "d"] {
        came_back(&ledger, id, false).await;
    }
    assert_eq!(codes(&ledger), [""; 0]);
    ledger.ran("b", Ran::Claimed);
    let said = ledger.faults()[0].to_string();
    assert!(
        said.contains("denied_call_ran: ") && said.contains("Bash (b);") && said.contains("its hook said so"),
        "{said}"
    );
    came_back(&ledger, "e", false).await;
    let said = ledger.faults()[0].to_string();
    assert!(said.contains("Bash (b), Bash (e);") && said.contains("came back to the model"), "{said}");
    assert_eq!(ledger.has_run("e"), Ran::Returned);
}

#[tokio::test]
async fn an_answer_that_nobody_can_read_makes_no_report_a_lie() {
    for (encoding, body) in [("gzip", "x"), ("identity", r#"{"object":"chat.completion"}"#)] {
        let ledger = Arc::new(Ledger::default());
        answered(&ledger, 200, &[]).await;
        assert_eq!(reported(&ledger, "toolu_1", "Bash", command("ls")), Claim::Forged);
        let foreign = Response::builder().header("content-encoding", encoding).body(full(body)).unwrap();
        ledger.answer(foreign).into_body().collect().await.unwrap();
        assert_eq!(reported(&ledger, "toolu_1", "PLATYPUS-7731", command("ls")), Claim::Unknown);
        // Even so it is noticed if such a call runs against its denial.
        ledger.ruled("toolu_1", RecordedDecision::Deny);
        came_back(&ledger, "toolu_1", false).await;
        assert_eq!(codes(&ledger), ["denied_call_ran"]);
        let said = ledger.faults()[0].to_string();
        assert!(said.contains("1 that no answer asked for") && !said.contains("PLATYPUS"), "{said}");
    }
}

#[tokio::test]
async fn arguments_that_cannot_be_read_make_no_report_a_lie() {
    let ledger = Arc::new(Ledger::default());
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let stream = format!("data: {{\"type\":\"message_start\"}}\n\ndata: {start}\n\ndata: {delta}\n\ndata: {stop}\n\n");
    ledger.answer(Response::new(full(stream))).into_body().collect().await.unwrap();
    assert_eq!(reported(&ledger, "toolu_1", "Bash", json!({ "__unparsedToolInput": {} })), Claim::Unknown);
    came_back(&ledger, "toolu_1", false).await;
    assert_eq!(codes(&ledger), [""; 0]);
}

#[tokio::test]
async fn what_is_remembered_of_made_up_reports_is_bounded() {
    let ledger = Arc::new(Ledger::default());
    for number in 0..2 * MAX_USES {
        assert_eq!(reported(&ledger, &format!("toolu_{number}"), "Bash", command("ls")), Claim::Unknown);
    }
    assert_eq!(ledger.state().unasked.len(), MAX_USES);
    answered(&ledger, 200, &[("toolu_a", "Bash", command("ls"))]).await;
    assert_eq!(reported(&ledger, "toolu_a", "Bash", command("ls")), Claim::Matched);
    assert_eq!(reported(&ledger, "toolu_x", "Bash", command("ls")), Claim::Forged);
}

#[tokio::test]
async fn a_packed_answer_is_read() {
    let ledger = Arc::new(Ledger::default());
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": command("ls") });
    let message = json!({ "type": "message", "content": [call] }).to_string();
    let packed = crate::outbound::coding::gzip(message.as_bytes());
    let packed = Response::builder().header("content-encoding", "gzip").body(full(packed)).unwrap();
    ledger.answer(packed).into_body().collect().await.unwrap();
    assert_eq!(reported(&ledger, "toolu_1", "Bash", command("ls")), Claim::Matched);
    assert_eq!(reported(&ledger, "toolu_2", "Bash", command("ls")), Claim::Forged);
}
