use proptest::prelude::*;
use serde_json::json;

use super::*;

fn called(id: &str, name: &str) -> ToolBlock {
    ToolBlock::Use { id: id.to_owned(), name: name.to_owned() }
}

fn result(id: &str, failed: bool) -> ToolBlock {
    ToolBlock::Result { id: id.to_owned(), failed }
}

fn with(id: &str, input: Value) -> ToolBlock {
    ToolBlock::Input { id: id.to_owned(), input: Some(input) }
}

fn of_answer(text: &str) -> Vec<ToolBlock> {
    let mut blocks = Vec::new();
    AnswerBlocks::default().feed(text.as_bytes(), &mut |block| blocks.push(block));
    blocks
}

fn of_request(text: &str) -> Vec<ToolBlock> {
    let mut blocks = Vec::new();
    RequestBlocks::default().feed(text.as_bytes(), &mut |block| blocks.push(block));
    blocks
}

/// Looks like a block wherever it stands.
fn decoy() -> serde_json::Value {
    json!({ "type": "tool_use", "id": "decoy", "name": "Decoy", "content": [{ "type": "tool_use", "id": "decoy", "name": "Decoy" }],
        "text": "{\"type\":\"tool_use\",\"id\":\"decoy\"}\\" })
}

#[test]
fn the_calls_of_a_whole_answer_are_found_and_no_argument_is_one() {
    let answer = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [
        { "type": "text", "text": "look: {\"type\":\"tool_use\"" },
        { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": decoy() },
        { "input": { "content": [decoy()] }, "name": "Read", "id": "toolu_2", "type": "tool_use" },
        { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} },
    ], "stop_reason": "tool_use", "usage": { "content": [{ "a": 1 }] } });
    let expected = [
        called("toolu_1", "Bash"),
        with("toolu_1", decoy()),
        called("toolu_2", "Read"),
        with("toolu_2", json!({ "content": [decoy()] })),
    ];
    assert_eq!(of_answer(&answer.to_string()), expected);
    assert_eq!(of_answer(&serde_json::to_string_pretty(&answer).unwrap()), expected);
    let mut reader = AnswerBlocks::default();
    reader.feed(answer.to_string().as_bytes(), &mut |_| ());
    assert!(reader.is_message());
}

#[test]
fn the_calls_of_a_streamed_answer_are_found_as_they_start() {
    let start = json!({ "type": "content_block_start", "index": 1,
        "content_block": { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} } });
    let arguments = decoy().to_string();
    let delta = |piece: &str| {
        json!({ "type": "content_block_delta", "index": 1,
        "delta": { "type": "input_json_delta", "partial_json": piece } })
    };
    let (delta, rest) = (delta(&arguments[..30]), delta(&arguments[30..]));
    let stop = json!({ "type": "content_block_stop", "index": 1 });
    for end in ["\n", "\r\n"] {
        let stream = format!(
            ": hello{end}{end}event: ping{end}data: {{\"type\":\"ping\"}}{end}{end}data:{start}{end}{end}\
             event: content_block_delta{end}data: {delta}{end}{end}data: {rest}{end}{end}data: {stop}{end}{end}\
             data: {{\"broken{end}{end}data: {second}{end}{end}data: {{\"type\":\"message_start\"}}{end}{end}data: {stop}{end}{end}",
            second = start.to_string().replace("_1", "_2")
        );
        let expected = [
            called("toolu_1", "Bash"),
            with("toolu_1", decoy()),
            called("toolu_2", "Bash"),
            with("toolu_2", json!({})),
        ];
        assert_eq!(of_answer(&stream), expected, "{end:?}");
        let mut reader = AnswerBlocks::default();
        reader.feed(stream.as_bytes(), &mut |_| ());
        assert!(reader.is_message());
        reader = AnswerBlocks::default();
        reader.feed(delta.to_string().as_bytes(), &mut |_| ());
        assert!(!reader.is_message());
    }
}

#[test]
fn arguments_are_read_behind_a_conversation_that_an_answer_quotes() {
    let call = r#"{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } }"#;
    let answer = format!(r#"{{ "messages": [{{ "content": [{call}] }}], "content": [{call}] }}"#);
    let blocks = of_answer(&answer);
    assert_eq!(blocks.last(), Some(&with("toolu_1", json!({ "command": "ls" }))), "{blocks:?}");
}

#[test]
fn the_results_of_a_request_are_found_with_their_failures() {
    let request = json!({
        "model": "m", "system": [{ "type": "text", "text": "s" }], "tools": [{ "name": "Bash", "input_schema": decoy() }],
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "tool_result", "tool_use_id": "no" }] },
                { "type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": true },
                { "tool_use_id": "toolu_3", "type": "tool_result", "is_error": false, "content": "x" },
            ] },
        ],
    });
    let expected =
        [called("toolu_1", "Bash"), result("toolu_1", false), result("toolu_2", true), result("toolu_3", false)];
    assert_eq!(of_request(&request.to_string()), expected);
}

#[test]
fn what_is_too_long_is_no_block_and_takes_no_room() {
    let mut document = Document::default();
    let endless = format!("{}\"{}", "[".repeat(100_000), "x".repeat(100_000));
    assert!(endless.bytes().all(|byte| document.feed(byte).is_none()));
    assert!(document.levels.len() <= DEPTH && document.token.capacity() <= 2 * TOKEN);
    let mut document = Document { captures: true, ..Document::default() };
    let endless = format!("{{\"content\":[{{\"input\":{{\"a\":\"{}", "x".repeat(INPUT + 1));
    assert!(endless.bytes().all(|byte| document.feed(byte).is_none()));
    assert!(matches!(document.input, Some((_, Captured(None)))));
    let id = "x".repeat(TOKEN + 1);
    assert_eq!(of_answer(&json!({ "content": [{ "type": "tool_use", "id": id, "name": "n" }] }).to_string()), []);
}

proptest! {
    #[test]
    fn wherever_the_bytes_are_cut_the_blocks_are_the_same(cuts in proptest::collection::vec(0_usize..400, 0..20), id in "\\PC{1,20}") {
        let text = json!({ "content": [{ "type": "tool_use", "id": id, "name": "\"Bäsh\\", "input": decoy() }] }).to_string();
        let mut blocks = Vec::new();
        let mut reader = AnswerBlocks::default();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut from = 0;
        for cut in cuts {
            reader.feed(&text.as_bytes()[from..cut], &mut |block| blocks.push(block));
            from = cut;
        }
        prop_assert_eq!(blocks, [called(&id, "\"Bäsh\\"), with(&id, decoy())]);
    }
}
