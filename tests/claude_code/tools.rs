//! Whole turns with every kind of tool: each call is seen once, does what it says, and shifts no step of the script.

use redroom::prelude::*;
use redroom::{Answer, RecordedToolCall};

use crate::turns::soon_over;

/// Every request was answered as it came. An answer that the agent cannot read is asked for again without streaming, which
/// would be one request more than the script has answers for.
#[track_caller]
fn assert_played(result: &RunResult, requests: usize) {
    assert_eq!(result.errors, [], "{:?}", result.turns.last());
    let asked: Vec<_> = result.model_calls.iter().map(|call| (&call.request.path, call.request.status)).collect();
    assert_eq!(asked.len(), requests, "{asked:?}");
    assert!(asked.iter().all(|(_, status)| *status == Some(200)), "{asked:?}");
}

fn tools(result: &RunResult) -> Vec<&str> {
    result.tool_calls.iter().map(|call| call.tool.as_str()).collect()
}

fn call<'a>(result: &'a RunResult, tool: &str) -> &'a RecordedToolCall {
    result.tool_calls.iter().find(|call| call.tool == tool).unwrap_or_else(|| panic!("no {tool}: {:?}", tools(result)))
}

/// How a turn stands in the agent's own log: the message, each call's input, the answer.
const TOLD: [&str; 6] = [
    r#""content":"Work.""#,
    r#""input":{"command":"printf first"#,
    r#""input":{"file_path":"/workspace/greeting.txt"}"#,
    r#""input":{"file_path":"/workspace/written.txt""#,
    r#""old_string":"hello""#,
    r#""text":"All four are done.""#,
];

#[redroom::attack(
    workspace = { "greeting.txt": "hello\n" },
    model = Script::new()
        .call("Bash", json!({ "command": "printf first > made.txt; cat made.txt", "description": "make" }))
        .call("Read", json!({ "file_path": "/workspace/greeting.txt" }))
        .call("Write", json!({ "file_path": "/workspace/written.txt", "content": "written\n" }))
        .call("Edit", json!({ "file_path": "/workspace/greeting.txt", "old_string": "hello", "new_string": "bye" }))
        .say("All four are done."),
)]
async fn the_shell_and_the_file_tools_do_what_they_are_told(run: Run) -> redroom::Result<()> {
    let turn = run.send("Work.").await?;
    assert_eq!((turn.final_text.as_str(), turn.is_error, turn.exit_code), ("All four are done.", false, Some(0)));
    assert_eq!(run.read_file("made.txt").await?.as_deref(), Some(&b"first"[..]));
    assert_eq!(run.read_file("written.txt").await?.as_deref(), Some(&b"written\n"[..]));
    assert_eq!(run.read_file("greeting.txt").await?.as_deref(), Some(&b"bye\n"[..]));
    let result = run.finish().await?;
    assert_played(&result, 5);
    assert_eq!(tools(&result), ["Bash", "Read", "Write", "Edit"]);
    let ids: std::collections::BTreeSet<_> = result.tool_calls.iter().map(|call| &call.tool_use_id).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert!(!ids.contains(&None));
    assert_eq!(result.hits, [], "a turn asks nobody but its model");
    let changed: Vec<_> = result.changes.iter().map(|change| change.path.to_text().into_owned()).collect();
    for path in ["made.txt", "written.txt", "greeting.txt"] {
        assert!(changed.iter().any(|changed| changed.ends_with(&format!("/workspace/{path}"))), "{changed:?}");
    }
    let places: Vec<_> = TOLD.map(|text| result.transcript.find(text)).to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "transcript: {places:?}");
    Ok(())
}

#[redroom::attack(
    pages = { "https://docs.redroom.test/setup": "<title>Setup</title><p>The word is <b>HERON</b>.</p>" },
    model = Script::new()
        .call("WebFetch", json!({ "url": "https://docs.redroom.test/setup", "prompt": "What is the word?" }))
        .say_result(|page| format!("It says: {page}")),
)]
async fn a_fetched_page_is_summed_up_and_nobody_else_is_asked(run: Run) -> redroom::Result<()> {
    let turn = run.send("Read https://docs.redroom.test/setup").await?;
    assert!(turn.final_text.contains("HERON"), "{}", turn.final_text);
    let result = run.finish().await?;
    assert_played(&result, 3);
    let https: Vec<_> = result.hits.iter().filter(|hit| hit.protocol == Protocol::Https).collect();
    assert_eq!(https.len(), 1, "{https:?}");
    assert_eq!(
        (https[0].host.as_str(), https[0].path.as_str(), https[0].status),
        ("docs.redroom.test", "/setup", Some(200))
    );
    for hit in &result.hits {
        assert!(hit.host == "docs.redroom.test" && !hit.blocked, "{hit:?}");
    }
    assert_eq!(result.unvisited_pages, [""; 0]);
    Ok(())
}

#[redroom::attack(
    model = Script::new()
        .calls((1..=4).map(|n| ("Bash", json!({ "command": format!("touch made-{n}"), "description": "make" }))))
        .step(Answer::say("And one more.").and_call("Bash", json!({ "command": "ls made-* | wc -l" })))
        .say_result(|count| format!("{} files", count.trim())),
)]
async fn four_calls_at_once_are_four_calls(run: Run) -> redroom::Result<()> {
    let turn = run.send("Make four files.").await?;
    assert!(turn.final_text.starts_with('4'), "{}", turn.final_text);
    let result = run.finish().await?;
    assert_played(&result, 3);
    assert_eq!(tools(&result), ["Bash"; 5]);
    let ids: std::collections::BTreeSet<_> = result.tool_calls.iter().map(|call| &call.tool_use_id).collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    Ok(())
}

#[redroom::attack(
    model = Script::new()
        .call("Agent", json!({
            "description": "count", "prompt": "Sub-task KINGFISHER: count.", "subagent_type": "general-purpose",
        }))
        .say_result(|report| format!("The sub-agent says: {report}"))
        .track("KINGFISHER", Script::new()
            .call("Bash", json!({ "command": "touch from-below; echo 41", "description": "count" }))
            .say("It is FORTY-ONE.")),
)]
async fn a_sub_agent_plays_its_own_track_and_its_calls_are_seen(run: Run) -> redroom::Result<()> {
    let turn = run.send("Delegate.").await?;
    assert!(turn.final_text.contains("FORTY-ONE"), "{}", turn.final_text);
    assert!(run.read_file("from-below").await?.is_some());
    let result = run.finish().await?;
    assert_played(&result, 4);
    assert_eq!(tools(&result), ["Agent", "Bash"]);
    assert_eq!(call(&result, "Agent").agent_id, None);
    assert!(call(&result, "Bash").agent_id.is_some());
    assert!(result.transcript.contains("from-below"), "the sub-agent's own log is part of the transcript");
    Ok(())
}

/// An MCP server over standard input and output, with one tool: `write` makes a file and says what it was given.
pub(crate) const MCP_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    method, number = ask.get("method"), ask.get("id")
    if number is None:
        continue
    if method == "initialize":
        answer = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "ledger", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": [{"name": "write", "description": "Writes a line.", "inputSchema":
                  {"type": "object", "properties": {"text": {"type": "string"}}}}]}
    elif method == "tools/call":
        text = ask["params"]["arguments"].get("text", "")
        open("/workspace/mcp", "w").write(text)
        answer = {"content": [{"type": "text", "text": "noted: " + text}]}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": answer}), flush=True)
"#;

pub(crate) const MCP_CONFIG: &str =
    r#"{ "mcpServers": { "ledger": { "type": "stdio", "command": "python3", "args": ["/workspace/ledger.py"] } } }"#;

#[redroom::attack(
    workspace = { ".mcp.json": MCP_CONFIG, "ledger.py": MCP_SERVER },
    model = Script::new()
        .call("mcp__ledger__write", json!({ "text": "from the model" }))
        .say_result(str::to_owned),
)]
async fn a_planted_mcp_server_is_started_and_its_calls_are_seen(run: Run) -> redroom::Result<()> {
    let turn = run.send("Write to the ledger.").await?;
    assert!(turn.final_text.contains("noted: from the model"), "{}", turn.final_text);
    let result = run.finish().await?;
    assert_played(&result, 2);
    let call = call(&result, "mcp__ledger__write");
    assert_eq!(call.mcp_server.as_deref(), Some("ledger"));
    assert_eq!(call.input, json!({ "text": "from the model" }));
    Ok(())
}

const ODD: &str = "κόσμε 🦩 \u{202e}back \"quoted\" \\ \t\u{1}\r\n</tool>";

#[redroom::attack(
    model = Script::new()
        .call("Write", json!({ "file_path": "/workspace/ωδή 🦩.txt", "content": ODD }))
        .call("Write", json!({ "file_path": "/workspace/large.txt", "content": "0123456789abcde\n".repeat(56_250) }))
        .say(""),
)]
async fn odd_and_large_arguments_arrive_whole(run: Run) -> redroom::Result<()> {
    run.send("Write.").await?;
    assert_eq!(run.read_file("ωδή 🦩.txt").await?.as_deref(), Some(ODD.as_bytes()));
    assert_eq!(run.read_file("large.txt").await?.map(|content| content.len()), Some(900_000));
    let result = run.finish().await?;
    assert_played(&result, 3);
    assert_eq!(tools(&result), ["Write", "Write"]);
    assert_eq!(result.tool_calls[0].input["content"], ODD);
    Ok(())
}

#[redroom::attack(
    model = Script::new()
        .call("Bash", json!({ "command": "echo heard", "description": "listen" }))
        .say("I shall keep it in mind.")
        .respond(|conversation: &Conversation| {
            let remembers = conversation.messages.iter().flat_map(|message| message.texts()).any(|text| text.contains("HERON"));
            Answer::say(format!("remembered: {remembers}; position {}", conversation.position()))
        }),
)]
async fn a_second_message_finds_the_first_remembered(run: Run) -> redroom::Result<()> {
    let first = run.send("The word is HERON.").await?;
    assert_eq!(first.final_text, "I shall keep it in mind.");
    let second = run.send("What was the word?").await?;
    assert_eq!(second.final_text, "remembered: true; position 2");
    let result = run.finish().await?;
    assert_played(&result, 3);
    assert_eq!(result.turns.iter().map(|turn| turn.index).collect::<Vec<_>>(), [0, 1]);
    Ok(())
}

#[redroom::attack(
    model = Script::new().respond(|conversation: &Conversation| {
        Answer::say(format!("{} bytes, {:?}", conversation.prompt().len(), &conversation.prompt()[..6]))
    }),
    limits = soon_over(),
)]
async fn a_message_that_is_long_and_starts_with_a_hyphen_arrives_whole(run: Run) -> redroom::Result<()> {
    let turn = run.send(format!("-x do {}", "y".repeat(300_000))).await?;
    assert_eq!(turn.final_text, "300006 bytes, \"-x do \"");
    assert_eq!(turn.stderr, "", "nothing waited for an input that never came");
    let result = run.finish().await?;
    assert_played(&result, 1);
    Ok(())
}

#[redroom::attack(model = Script::new())]
async fn a_question_for_the_size_of_the_context_is_answered(run: Run) -> redroom::Result<()> {
    let turn = run.send("/context").await?;
    assert!(!turn.is_error, "{turn:?}");
    let result = run.finish().await?;
    assert_eq!(result.errors, []);
    let asked: Vec<_> = result.model_calls.iter().map(|call| (&call.request.path, call.request.status)).collect();
    let is_answered = |(path, status): &(&String, Option<u16>)| path.contains("/count_tokens") && *status == Some(200);
    assert!(!asked.is_empty() && asked.iter().all(is_answered), "{asked:?}");
    Ok(())
}
