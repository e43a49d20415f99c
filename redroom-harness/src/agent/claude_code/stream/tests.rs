use serde_json::{Value, json};

use super::{EVENTS_LIMIT, LINE_LIMIT, Reader};
use crate::agent::{ParsedTurn, TurnLimit, TurnReader};

fn read(out: &[u8], err: &str, exit_code: Option<i64>) -> ParsedTurn {
    let mut reader = Box::new(Reader::default());
    out.chunks(1_000).for_each(|chunk| reader.out(chunk));
    reader.err(err.as_bytes());
    reader.end(exit_code)
}

fn result(fields: &Value) -> String {
    let mut line = json!({"type": "result", "subtype": "success", "is_error": false});
    line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    format!("{line}\n")
}

fn code(parsed: &ParsedTurn) -> Option<&str> {
    parsed.error.as_ref().map(|error| error.code())
}

#[test]
fn a_turn_that_completes_gives_its_answer_cost_and_events() {
    let out = [
        "{\"type\":\"system\",\"subtype\":\"init\"}\n".to_owned(),
        result(&json!({"terminal_reason": "completed", "result": "All done.", "total_cost_usd": 0.5, "usage": {"input_tokens": 5}})),
    ]
    .concat();
    let parsed = read(out.as_bytes(), "", Some(0));
    assert_eq!(parsed.final_text, "All done.");
    assert_eq!(parsed.session_cost_usd, Some(0.5));
    assert_eq!(parsed.usage, Some(json!({"input_tokens": 5})));
    assert_eq!(parsed.stop_reason.as_deref(), Some("completed"));
    assert_eq!((parsed.events.len(), parsed.events_dropped, parsed.lines_unread), (2, 0, 0));
    assert_eq!((parsed.error, parsed.is_error, parsed.limit_hit), (None, false, None));
}

#[test]
fn the_last_of_several_results_counts() {
    let out = [
        result(&json!({"terminal_reason": "completed", "result": "one", "total_cost_usd": 0.1})),
        result(&json!({"terminal_reason": "completed", "result": "two", "total_cost_usd": 0.3})),
    ]
    .concat();
    let parsed = read(out.as_bytes(), "", Some(0));
    assert_eq!((parsed.final_text.as_str(), parsed.session_cost_usd), ("two", Some(0.3)));
}

#[test]
fn each_end_has_its_code() {
    let ends = [
        (
            json!({"is_error": true, "terminal_reason": "max_turns", "errors": ["Reached maximum number of turns (3)"]}),
            1,
            Some("turn_limit_reached"),
            Some(TurnLimit::MaxTurns),
        ),
        (
            json!({"is_error": true, "terminal_reason": "budget_exhausted"}),
            1,
            Some("turn_limit_reached"),
            Some(TurnLimit::MaxBudget),
        ),
        (
            json!({"is_error": true, "terminal_reason": "api_error", "result": "API Error: 500 boom", "api_error_status": 500}),
            1,
            Some("model_error"),
            None,
        ),
        (json!({"terminal_reason": "hook_stopped", "result": ""}), 0, Some("hook_stopped"), None),
        (json!({"terminal_reason": "tool_deferred", "result": ""}), 0, Some("tool_deferred"), None),
        (json!({"terminal_reason": null, "result": "## Context Usage"}), 0, None, None),
        (
            json!({"terminal_reason": null, "result": "UserPromptSubmit operation blocked by hook:\nno"}),
            0,
            Some("hook_stopped"),
            None,
        ),
        (
            json!({"is_error": true, "errors": ["No conversation found with session ID: x"]}),
            1,
            Some("turn_failed"),
            None,
        ),
        (json!({"terminal_reason": "prompt_too_long"}), 0, Some("turn_failed"), None),
        (json!({"is_error": true, "terminal_reason": "completed"}), 0, Some("turn_failed"), None),
        (json!({"terminal_reason": "completed"}), 1, Some("turn_failed"), None),
        (json!({"terminal_reason": "completed"}), 0, None, None),
    ];
    for (fields, exit_code, expected, limit) in ends {
        let parsed = read(result(&fields).as_bytes(), "", Some(exit_code));
        assert_eq!(code(&parsed), expected, "{fields}");
        assert_eq!(parsed.limit_hit, limit, "{fields}");
        assert_eq!(parsed.is_error, fields["is_error"] == true, "{fields}");
    }
}

#[test]
fn a_model_error_says_what_the_model_said() {
    let fields = json!({"is_error": true, "terminal_reason": "api_error", "result": "API Error: 500 boom", "api_error_status": 500});
    let error = read(result(&fields).as_bytes(), "", Some(1)).error.unwrap();
    assert!(error.detail().contains("500 boom") && error.detail().contains("status 500"), "{error}");
    assert_eq!(error.call().unwrap().exit_code, Some(1));
}

#[test]
fn a_turn_without_a_result_failed_whatever_its_exit_code() {
    for (exit_code, word) in
        [(Some(0), "0"), (Some(137), "SIGKILL"), (Some(143), "SIGTERM"), (Some(1), "1"), (None, "sandbox")]
    {
        let parsed = read(b"{\"type\":\"system\"}\n", "last words\n", exit_code);
        assert_eq!(code(&parsed), Some("turn_failed"));
        let detail = parsed.error.unwrap().detail().to_owned();
        assert!(detail.contains(word) && detail.contains("last words"), "{detail}");
    }
}

#[test]
fn a_program_that_cannot_start_is_told_apart_and_its_words_are_kept() {
    let words = "claude: error while loading shared libraries: libm.so.6: cannot open shared object file\n";
    let parsed = read(b"", words, Some(127));
    assert_eq!(code(&parsed), Some("agent_not_startable"));
    assert!(parsed.error.unwrap().detail().contains("libm.so.6"));
}

#[test]
fn a_complaint_about_the_managed_settings_outweighs_a_turn_that_completes() {
    let completed = result(&json!({"terminal_reason": "completed", "result": "ok"}));
    for words in [
        "Managed settings contain invalid entries, including PreToolUse/PermissionRequest hooks that are NOT loaded; fix or remove each entry:\n",
        "Managed settings contain invalid entries (remaining valid policies are still enforced):\n",
        "/etc/claude-code/managed-settings.json: Managed settings document could not be parsed as a JSON object\n",
    ] {
        assert_eq!(code(&read(completed.as_bytes(), words, Some(0))), Some("hook_not_loaded"), "{words}");
        assert_eq!(code(&read(b"", words, Some(1))), Some("hook_not_loaded"), "{words}");
    }
    let flooded = format!("Managed settings contain invalid entries\n{}", "x".repeat(1_000_000));
    assert_eq!(code(&read(completed.as_bytes(), &flooded, Some(0))), Some("hook_not_loaded"));
    assert_eq!(code(&read(completed.as_bytes(), "some other warning\n", Some(0))), None);
}

#[test]
fn lines_that_are_no_events_are_counted_and_do_no_harm() {
    let out = ["not json\n[1]\n{\"type\":7}\n\n", &result(&json!({"terminal_reason": "completed"}))].concat();
    let parsed = read(out.as_bytes(), "", Some(0));
    assert_eq!((parsed.lines_unread, parsed.events.len(), code(&parsed)), (3, 1, None));
}

#[test]
fn a_result_that_cannot_be_understood_is_none() {
    let with = |beside: &[u8]| [b"{\"type\":\"result\",", beside, b"}\n"].concat();
    let well = &b"\"is_error\":false,\"terminal_reason\":\"completed\""[..];
    let no_text = [well, b",\"x\":\"\xff\""].concat();
    let too_deep = [well, b",\"x\":", &b"[".repeat(130), &b"]".repeat(130)].concat();
    for odd in [&b"\"is_error\":\"no\""[..], &no_text, &too_deep] {
        let parsed = read(&with(odd), "", Some(0));
        assert_eq!((code(&parsed), parsed.lines_unread), (Some("turn_failed"), 1), "{}", odd.escape_ascii());
    }
    assert_eq!(code(&read(&with(well), "", Some(0))), None);
}

#[test]
fn the_last_line_needs_no_end() {
    let out = result(&json!({"terminal_reason": "completed", "result": "ok"}));
    assert_eq!(read(out.trim_end().as_bytes(), "", Some(0)).final_text, "ok");
}

#[test]
fn a_line_past_the_limit_is_dropped_and_the_next_one_read() {
    let mut reader = Box::new(Reader::default());
    reader.out(b"{\"type\":\"user\",\"x\":\"");
    (0..LINE_LIMIT / 65_536 + 1).for_each(|_| reader.out(&[b'x'; 65_536]));
    reader.out(b"\"}\n");
    reader.out(result(&json!({"terminal_reason": "completed", "result": "ok"})).as_bytes());
    let parsed = reader.end(Some(0));
    assert_eq!((parsed.events_dropped, parsed.lines_unread, parsed.final_text.as_str()), (1, 0, "ok"));
}

#[test]
fn events_are_bounded_by_number_and_weight_and_the_result_is_read_all_the_same() {
    let many = "{\"type\":\"user\"}\n".repeat(EVENTS_LIMIT + 10)
        + &result(&json!({"terminal_reason": "completed", "result": "ok"}));
    let parsed = read(many.as_bytes(), "", Some(0));
    assert_eq!((parsed.events.len(), parsed.events_dropped), (EVENTS_LIMIT, 11));
    assert_eq!(parsed.final_text, "ok");

    let heavy = format!("{}\n", json!({"type": "user", "x": "x".repeat(1_000_000)})).repeat(20);
    let parsed = read(heavy.as_bytes(), "", Some(0));
    assert_eq!((parsed.events.len(), parsed.events_dropped), (8, 12));
}

#[test]
fn an_answer_is_cut_in_its_middle() {
    let answer = format!("first{}last", "x".repeat(3_000_000));
    let text =
        read(result(&json!({"terminal_reason": "completed", "result": answer})).as_bytes(), "", Some(0)).final_text;
    assert!(text.starts_with("first") && text.ends_with("last") && text.len() < 1_100_000, "{}", text.len());
}
