mod head;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(path: &str, body: &[u8]) -> Result<Vec<(AskKind, String)>, String> {
    let mut asks = Asks::default();
    of_body(path, body, &mut asks)?;
    Ok(asks.into_vec().into_iter().map(|ask| (ask.kind, ask.name)).collect())
}

fn asked(path: &str, body: &Value) -> Vec<(AskKind, String)> {
    read(path, body.to_string().as_bytes()).unwrap()
}

fn messages(more: &Value) -> Value {
    let mut body = json!({ "model": "m", "max_tokens": 1, "messages": [{ "role": "user", "content": "go" }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn kinds(path: &str, body: &Value) -> Vec<AskKind> {
    asked(path, body).into_iter().map(|(kind, _)| kind).collect()
}

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";

#[test]
fn what_an_agent_does_itself_is_no_ask() {
    let input =
        json!({ "type": "image", "source": { "type": "url", "url": "https://x.example/" }, "mcp_servers": [1] });
    let body = messages(&json!({
        "system": [{ "type": "text", "text": "s", "cache_control": { "type": "ephemeral" } }],
        "tools": [
            { "name": "web_search", "description": "d", "input_schema": { "type": "object", "properties": { "type": { "type": "url" } } } },
            { "type": "custom", "name": "x", "input_schema": {} },
            { "type": null, "name": "y" },
            { "type": "bash_20250124", "name": "bash" },
            { "type": "text_editor_20250728", "name": "edit" },
            { "type": "memory_20250818", "name": "memory" },
        ],
        "mcp_servers": [], "container": null, "plugins": [], "prompt": "text",
        "metadata": { "user_id": "u" }, "context_management": { "edits": [{ "type": "clear_tool_uses_20250919" }] },
        "messages": [
            { "role": "user", "content": [
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } },
                { "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "hi" } },
                { "type": "document", "source": { "type": "content", "content": [{ "type": "text", "text": "x" }] } },
                { "type": "image_url", "image_url": { "url": "DATA:image/png;base64,aGk=" } },
            ] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "1", "name": "Write", "input": input }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "1", "content": [
                { "type": "text", "text": "{\"mcp_servers\":[1]}" }, { "type": "tool_reference", "tool_name": "x" },
            ] }] },
        ],
    }));
    assert_eq!(asked(MESSAGES, &body), []);
    let body = json!({ "model": "m", "store": false, "prompt": null, "instructions": "be good",
        "tools": [
            { "type": "function", "name": "shell", "parameters": { "type": "object" } },
            { "type": "custom", "name": "exec", "format": { "type": "grammar" } },
            { "type": "local_shell" },
            { "type": "namespace", "name": "n", "tools": [{ "type": "function", "name": "web_search" }] },
        ],
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_image", "image_url": "data:image/png;base64,aGk=" }] },
            { "type": "additional_tools", "tools": [{ "type": "custom", "name": "exec" }] },
            { "type": "function_call", "call_id": "1", "arguments": "{\"file_id\":\"f\"}" },
            { "type": "function_call_output", "call_id": "1", "output": "text" },
        ] });
    assert_eq!(asked(RESPONSES, &body), []);
    let body = json!({ "model": "m", "tools": [{ "type": "function", "function": { "name": "web_search", "type": "x" } }],
        "messages": [{ "role": "user", "content": [{ "type": "file", "file": { "file_data": "data:x", "filename": "f" } }] }] });
    assert_eq!(asked(CHAT, &body), []);
}

#[test]
fn whatever_the_provider_would_do_is_an_ask_wherever_it_can_stand() {
    use AskKind::{Container, FileSource, McpServers, ProviderTool, StoredState, UrlSource};
    let block = |block: Value| json!({ "messages": [{ "role": "user", "content": [block] }] });
    let tools = |kind: Value| json!({ "tools": [{ "name": "n" }, { "name": "t", "type": kind }] });
    let image = |source: Value| block(json!({ "type": "image", "source": source }));
    let url = json!({ "type": "url", "url": "https://x.example/a.png" });
    for (body, kind, name) in [
        (tools(json!("web_search_20250305")), ProviderTool, "web_search_20250305"),
        (tools(json!("web_fetch_20250910")), ProviderTool, "web_fetch_20250910"),
        (tools(json!("code_execution_20250825")), ProviderTool, "code_execution_20250825"),
        (tools(json!("computer_20250124")), ProviderTool, "computer_20250124"),
        (tools(json!("mcp_toolset")), ProviderTool, "mcp_toolset"),
        (tools(json!("never_heard_of_20300101")), ProviderTool, "never_heard_of_20300101"),
        (tools(json!("bash_2025012")), ProviderTool, "bash_2025012"),
        (tools(json!("bash_2025012x")), ProviderTool, "bash_2025012x"),
        (tools(json!("Custom")), ProviderTool, "Custom"),
        (tools(json!("")), ProviderTool, ""),
        (tools(json!(7)), ProviderTool, "?"),
        (tools(json!(["custom"])), ProviderTool, "?"),
        (json!({ "tools": ["web_search"] }), ProviderTool, "web_search"),
        (json!({ "tools": { "type": "web_search" } }), ProviderTool, "web_search"),
        (json!({ "TOOLS": [{ "TYPE": "web_search" }] }), ProviderTool, "web_search"),
        (json!({ "tool\u{17f}": [{ "type": "web_search" }] }), ProviderTool, "web_search"),
        (json!({ "extra_body": { "tools": [{ "type": "web_search" }] } }), ProviderTool, "web_search"),
        (json!({ "web_search_options": {} }), ProviderTool, "web_search_options"),
        (json!({ "plugins": [{ "id": "web" }] }), ProviderTool, "plugins"),
        (json!({ "mcp_servers": [{ "type": "url", "url": "https://x.example/" }] }), McpServers, "https://x.example/"),
        (json!({ "mcpServers": { "a": 1 } }), McpServers, "mcp_servers"),
        (json!({ "container": "cntr_1" }), Container, "cntr_1"),
        (json!({ "container": { "skills": [{ "type": "anthropic", "skill_id": "pptx" }] } }), Container, ""),
        (image(url.clone()), UrlSource, "https://x.example/a.png"),
        (image(json!({ "type": "base64", "data": "", "url": "https://x.example/" })), UrlSource, "https://x.example/"),
        (image(json!({ "type": "s3" })), UrlSource, "s3"),
        (image(json!({ "type": "file", "file_id": "file_1" })), FileSource, "file_1"),
        (image(json!({ "file_id": "file_4" })), FileSource, "file_4"),
        (image(json!({ "type": "file", "id": "file_5" })), FileSource, ""),
        (block(json!({ "type": "container_upload", "file_id": "file_2" })), FileSource, "file_2"),
        (
            block(json!({ "type": "image_url", "image_url": { "url": "http://x.example/" } })),
            UrlSource,
            "http://x.example/",
        ),
        (block(json!({ "type": "file", "file": { "file_id": "file_3" } })), FileSource, "file_3"),
        (block(json!({ "type": "file", "file": { "url": "http://x.example/" } })), UrlSource, "http://x.example/"),
        (
            block(json!({ "type": "file", "file_data": { "file_uri": "http://x.example/" } })),
            UrlSource,
            "http://x.example/",
        ),
        (
            block(json!({ "type": "tool_result", "content": [{ "type": "image", "source": url }] })),
            UrlSource,
            "https://x.example/a.png",
        ),
        (
            block(
                json!({ "type": "document", "source": { "type": "content", "content": [{ "type": "image", "source": url }] } }),
            ),
            UrlSource,
            "https://x.example/a.png",
        ),
        (json!({ "system": [{ "type": "document", "source": { "type": "file", "file_id": "f" } }] }), FileSource, "f"),
        (json!({ "previous_response_id": "resp_1" }), StoredState, "previous_response_id"),
        (json!({ "prompt": { "id": "pmpt_1" } }), StoredState, "prompt"),
        (json!({ "input": [{ "type": "item_reference", "id": "i" }] }), StoredState, "item_reference"),
        (
            json!({ "input": [{ "content": [{ "type": "input_file", "file_url": "http://x.example/" }] }] }),
            UrlSource,
            "http://x.example/",
        ),
        (json!({ "input": [{ "type": "additional_tools", "tools": [{ "type": "mcp" }] }] }), ProviderTool, "mcp"),
    ] {
        for path in [MESSAGES, "/v1/messages/count_tokens", RESPONSES, CHAT, "/api/unknown"] {
            let found = asked(path, &messages(&body));
            assert!(found.contains(&(kind, name.to_owned())), "{path} {body}: {found:?}");
        }
    }
    for kind in ["web_search", "web_search_preview", "code_interpreter", "mcp", "file_search", "computer_use_preview"] {
        let tools = json!({ "tools": [{ "type": "namespace", "tools": [{ "type": kind }] }] });
        assert_eq!(asked(RESPONSES, &tools), [(ProviderTool, kind.to_owned())]);
    }
    // What is the agent's own in one format is nobody's in another.
    assert_eq!(kinds(MESSAGES, &tools(json!("local_shell"))), [ProviderTool]);
    assert_eq!(kinds(CHAT, &tools(json!("bash_20250124"))), [ProviderTool]);
}

#[test]
fn batches_and_files_are_asks_and_what_is_in_a_batch_is_looked_at() {
    let inner = messages(&json!({ "tools": [{ "type": "web_search_20250305" }] }));
    let batch = json!({ "requests": [{ "custom_id": "1", "params": inner }] });
    let found = kinds("/v1/messages/batches", &batch);
    assert!(found.contains(&AskKind::Batch) && found.contains(&AskKind::ProviderTool), "{found:?}");
    assert!(kinds(MESSAGES, &batch).contains(&AskKind::Batch));
    for path in ["/v1/files", "/v1/uploads", "/v1/uploads/"] {
        assert_eq!(kinds(path, &json!({})), [AskKind::Files], "{path}");
    }
    assert_eq!(kinds("/v1/batches/", &json!({ "input_file_id": "f" })), [AskKind::Batch]);
}

#[test]
fn what_two_readers_could_read_differently_is_not_read() {
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let many: String = (0..10_001).map(|n| format!("\"{n}\":1,")).collect();
    for body in [
        &b""[..],
        b"model=m&tools=web_search",
        b"{\"a\":1}{\"tools\":[]}",
        b"{\"a\":1} x",
        b"\xef\xbb\xbf{}",
        b"{\0}\0",
        b"\xff\xfe{\0}\0",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\xc0\xaf\"}",
        b"{\"tools\":[],\"tools\":[1]}",
        b"{\"tools\":[],\"t\\u006fols\":[1]}",
        b"{\"x\":{\"y\":[{\"z\":1,\"z\":2}]}}",
        b"{\"a\":NaN}",
        b"{'a':1}",
        b"{\"a\":1,}",
        b"{\"a\":1//c\n}",
        b"{\"a\":\"\\ud800\"}",
        b"{\"a\":\"\n\"}",
        b"[{}]",
        b"\"{}\"",
        format!("{{\"a\":{nested}}}").as_bytes(),
        format!("{{{}\"a\":1}}", many).as_bytes(),
    ] {
        let error = read(MESSAGES, body).expect_err(&String::from_utf8_lossy(&body[..body.len().min(60)]));
        assert!(!error.contains("web_search"), "{error}");
    }
    // What only differs in letter case, or in whose object it stands, does not stand twice.
    assert_eq!(read(MESSAGES, b"{\"A\":1,\"a\":{\"a\":1},\"b\":{\"a\":2}}"), Ok(Vec::new()));
}

#[test]
fn more_asks_than_can_be_kept_are_not_forgotten() {
    let tools: Vec<Value> = (0..150).map(|n| json!({ "type": format!("web_search_{n}") })).collect();
    let mut asks = Asks::default();
    of_body(MESSAGES, messages(&json!({ "tools": tools })).to_string().as_bytes(), &mut asks).unwrap();
    assert!(asks.is_overflown());
    assert_eq!(asks.iter().count(), 100);
    let mut joined = Asks::default();
    joined.add_all(asks);
    assert!(joined.is_overflown(), "nor when they are joined with others");
}

#[test]
fn only_what_is_named_may_be_asked() {
    let asks = |kind: AskKind, name: &str| {
        let mut asks = Asks::default();
        asks.add(kind, name);
        asks
    };
    let search = asks(AskKind::ProviderTool, "web_search_20250305");
    let denied = ProviderTools::default().check(&search).unwrap_err();
    assert_eq!((denied.by(), denied.code()), (crate::By::Agent, "provider_tool_denied"));
    assert!(
        denied.detail().contains("`web_search_20250305`") && denied.detail().contains("allow_provider_tools"),
        "{denied}"
    );
    for (allowed, passes) in
        [("web_search", true), ("web_search_20250305", true), ("web_search_20250306", false), ("web", false)]
    {
        assert_eq!(ProviderTools::named([allowed]).unwrap().check(&search).is_ok(), passes, "{allowed}");
    }
    let mcp = asks(AskKind::McpServers, "https://x.example/PLATYPUS-7731");
    assert!(ProviderTools::named(["mcp_servers"]).unwrap().check(&mcp).is_ok());
    let denied = ProviderTools::named(["web_search"]).unwrap().check(&mcp).unwrap_err();
    assert!(!denied.detail().contains("x.example"), "{denied}");
    let strange = ProviderTools::default().check(&asks(AskKind::ProviderTool, "\u{1b}[31mPLATYPUS")).unwrap_err();
    assert!(!strange.detail().contains("PLATYPUS"), "{strange}");
    let everything = ProviderTools::named(["web_search", "credential"]).unwrap();
    assert_eq!(everything.check(&asks(AskKind::Credentials, "x-api-key")).unwrap_err().code(), "foreign_credentials");
    assert_eq!(everything.check(&asks(AskKind::Host, "x.example")).unwrap_err().code(), "foreign_host");
    for never in ["credentials", "host", "", "Web Search", "*"] {
        assert_eq!(ProviderTools::named([never]).unwrap_err().code(), "invalid_provider_tool", "{never}");
    }
}

#[test]
fn a_stored_ask_reads_as_it_was_written() {
    let ask = Ask::new(AskKind::ProviderTool, &"x".repeat(500));
    let stored = serde_json::to_value(&ask).unwrap();
    assert_eq!(stored, json!({ "kind": "provider_tool", "name": "x".repeat(200) }));
    assert_eq!(serde_json::from_value::<Ask>(stored).unwrap(), ask);
    for kind in [
        AskKind::McpServers,
        AskKind::Container,
        AskKind::UrlSource,
        AskKind::FileSource,
        AskKind::Files,
        AskKind::Batch,
        AskKind::StoredState,
        AskKind::Credentials,
        AskKind::Host,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(custom|web_search|url|data:x|\\PC{0,8})".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let name = "(tools|type|messages|content|source|url|input|\\PC{0,6})";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_provider_tool_is_found_beside_whatever_else_there_is(
        before in any_json(), after in any_json(), place in 0..4_usize, pretty: bool, path in "(/v1/messages|/v1/responses|/x)",
    ) {
        let tool = json!({ "name": before.clone(), "type": "web_search_20250305", "more": after.clone() });
        let body = match place {
            0 => json!({ "a": before, "tools": [tool], "z": after }),
            1 => json!({ "a": before, "tools": [{ "name": "n" }, [tool]], "z": after }),
            2 => json!({ "extra_body": { "tools": [tool] }, "input": after }),
            _ => json!({ "input": [after, { "tools": [tool] }], "z": before }),
        };
        let text = if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
        let found = read(&path, text.as_bytes()).unwrap();
        prop_assert!(found.contains(&(AskKind::ProviderTool, "web_search_20250305".to_owned())), "{:?}", found);
    }

    #[test]
    fn whatever_comes_is_read_or_refused_and_stays_within_its_bounds(bytes in prop::collection::vec(any::<u8>(), 0..300), json in any_json()) {
        let _ = read(MESSAGES, &bytes);
        if let Ok(asks) = read(MESSAGES, json.to_string().as_bytes()) {
            prop_assert!(json.is_object());
            prop_assert!(asks.iter().all(|(_, name)| name.chars().count() <= 200) && asks.len() <= 100);
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_found_however_deep_and_however_it_is_written(
        json in any_json(), name in "[a-z]{1,8}", escaped: bool,
    ) {
        let written = if escaped { name.chars().map(|char| format!("\\u{:04X}", u32::from(char))).collect() } else { name.clone() };
        let text = format!("{{\"a\":[{json},{{\"{name}\":1,\"b1\":{json},\"{written}\":{json}}}]}}");
        prop_assert!(read(MESSAGES, text.as_bytes()).is_err(), "{}", text);
    }
}

#[test]
fn tools_that_are_told_by_a_field_instead_of_a_type_are_asks() {
    for (tool, name) in [
        (json!({ "googleSearch": {} }), "google_search"),
        (json!({ "google_search_retrieval": {} }), "google_search_retrieval"),
        (json!({ "url_context": {} }), "url_context"),
        (json!({ "functionDeclarations": [{ "name": "f" }], "codeExecution": {} }), "code_execution"),
        (json!({ "type": "function", "function": { "name": "f" }, "googleSearch": {} }), "google_search"),
        (json!({ "never_heard_of": {} }), "?"),
    ] {
        for path in [MESSAGES, CHAT, "/v1beta/models/m:generateContent"] {
            let found = asked(path, &messages(&json!({ "tools": [tool] })));
            assert!(found.contains(&(AskKind::ProviderTool, name.to_owned())), "{path} {tool}: {found:?}");
        }
    }
    for own in [json!({ "functionDeclarations": [{ "name": "f" }] }), json!({ "function": { "name": "f" } })] {
        assert_eq!(asked(CHAT, &json!({ "tools": [own] })), []);
    }
}

#[test]
fn settings_that_make_the_provider_search_are_asks() {
    for (more, name) in [
        (json!({ "search_parameters": { "mode": "on" } }), "search_parameters"),
        (json!({ "enable_search": true }), "enable_search"),
        (
            json!({ "data_sources": [{ "type": "azure_search", "parameters": { "endpoint": "https://x.example" } }] }),
            "data_sources",
        ),
        (json!({ "model": "openai/m:online" }), "online"),
        (json!({ "models": ["m", "openai/m:online"] }), "online"),
    ] {
        assert_eq!(asked(CHAT, &messages(&more)), [(AskKind::ProviderTool, name.to_owned())], "{more}");
    }
    assert_eq!(asked(CHAT, &messages(&json!({ "model": "m:free", "enable_search": false }))), []);
}

#[test]
fn a_reference_to_a_stored_item_needs_no_type() {
    for item in [json!({ "id": "msg_1" }), json!({ "id": "msg_1", "type": null })] {
        assert_eq!(kinds(RESPONSES, &json!({ "input": [item] })), [AskKind::StoredState]);
    }
    let message = json!({ "id": "msg_1", "role": "assistant", "content": "x" });
    assert_eq!(kinds(RESPONSES, &json!({ "input": [message, { "id": "rs_1", "type": "reasoning" }] })), []);
}

#[test]
fn a_gateway_is_told_of_no_other_host_and_no_other_key_in_a_body() {
    for (more, kind) in [
        (json!({ "api_base": "https://x.example/" }), AskKind::Host),
        (json!({ "extra_body": { "baseUrl": "https://x.example/" } }), AskKind::Host),
        (json!({ "user_config": { "model_list": [] } }), AskKind::Host),
        (json!({ "api_key": "sk-foreign" }), AskKind::Credentials),
    ] {
        for path in [MESSAGES, CHAT] {
            assert_eq!(kinds(path, &messages(&more)), [kind], "{path} {more}");
        }
    }
}
