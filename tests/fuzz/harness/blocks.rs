//! A model's answer and an agent's request as they stream by, against a reader that has the whole of them.

use serde_json::{Value, json};

use super::draw::chunks;
use crate::agent::ModelApi;
use crate::model::{AnswerBlocks, RequestBlocks, ToolBlock, tool_uses};

pub(super) fn run(data: &[u8]) {
    assert_eq!(of_answer(chunks(data)), of_answer(vec![data]));
    assert_eq!(of_request(chunks(data)), of_request(vec![data]));
    for api in [ModelApi::AnthropicMessages, ModelApi::OpenAiChatCompletions] {
        let _ = tool_uses(api, data);
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    if value.is_object() {
        // Written again: what stands twice is read as it stands last.
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            assert_eq!(of_answer(chunks(text.as_bytes())), expected_of_answer(&value).concat(), "{text}");
            assert_eq!(of_request(chunks(text.as_bytes())), expected_of_request(&value), "{text}");
        }
    }
    if let Some(fields) = value.as_object() {
        // The other way round: what is quoted comes first.
        let fields: Vec<String> = fields.iter().rev().map(|(name, it)| format!("{}:{it}", json!(name))).collect();
        let text = format!("{{{}}}", fields.join(","));
        let expected: Vec<_> = expected_of_answer(&value).into_iter().rev().collect();
        assert_eq!(of_answer(chunks(text.as_bytes())), expected.concat(), "{text}");
    }
    if let Value::Array(documents) = value {
        streamed(&documents);
    }
}

fn of_answer(chunks: Vec<&[u8]>) -> Vec<ToolBlock> {
    let (mut blocks, mut reader) = (Vec::new(), AnswerBlocks::default());
    chunks.into_iter().for_each(|chunk| reader.feed(chunk, &mut |block| blocks.push(block)));
    blocks
}

fn of_request(chunks: Vec<&[u8]>) -> Vec<ToolBlock> {
    let (mut blocks, mut reader) = (Vec::new(), RequestBlocks::default());
    chunks.into_iter().for_each(|chunk| reader.feed(chunk, &mut |block| blocks.push(block)));
    blocks
}

/// A text, or what stands there as a word; nothing that is empty or longer than a name.
fn word(value: &Value, name: &str) -> Option<String> {
    let value = value.get(name)?;
    let (word, written) = match value {
        Value::String(text) => (text.clone(), value.to_string().len() - 2),
        Value::Array(_) | Value::Object(_) => return None,
        _ => (value.to_string(), value.to_string().len()),
    };
    (!word.is_empty() && written <= 512).then_some(word)
}

fn used(block: &Value) -> Option<(String, String)> {
    let is_use = word(block, "type").as_deref() == Some("tool_use");
    is_use.then(|| Some((word(block, "id")?, word(block, "name")?)))?
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten().filter(|item| item.is_object())
}

/// Field by field, in the order of their names.
fn expected_of_answer(answer: &Value) -> [Vec<ToolBlock>; 3] {
    let started = answer.get("content_block").filter(|block| block.is_object());
    let own = [list(answer, "content").collect(), started.into_iter().collect()];
    let [content, started] = own.map(|blocks: Vec<&Value>| expected_of_blocks(&blocks, true));
    [content, started, expected_of_blocks(&in_messages(answer), false)]
}

fn expected_of_blocks(all: &[&Value], is_own: bool) -> Vec<ToolBlock> {
    let mut blocks = Vec::new();
    for block in all {
        if let Some((id, name)) = used(block) {
            let input = block.get("input").filter(|input| is_own && input.is_object()).cloned();
            blocks.push(ToolBlock::Use { id: id.clone(), name });
            blocks.push(ToolBlock::Input { id, input });
        }
    }
    blocks
}

fn in_messages(document: &Value) -> Vec<&Value> {
    list(document, "messages").flat_map(|message| list(message, "content")).collect()
}

fn expected_of_request(request: &Value) -> Vec<ToolBlock> {
    let started = request.get("content_block").filter(|block| block.is_object());
    let all = list(request, "content").chain(started).chain(in_messages(request));
    let told = all.filter_map(|block| {
        if let Some((id, name)) = used(block) {
            return Some(ToolBlock::Use { id, name });
        }
        let is_result = word(block, "type").as_deref() == Some("tool_result");
        let failed = word(block, "is_error").as_deref() == Some("true");
        Some(ToolBlock::Result { id: word(block, "tool_use_id")?, failed }).filter(|_| is_result)
    });
    told.collect()
}

/// The same calls are found in a stream of events by the reader that streams and by the one that does not, however lines end and
/// whatever else is said.
fn streamed(documents: &[Value]) {
    let mut events = Vec::new();
    let mut expected = Vec::new();
    for (index, document) in documents.iter().take(20).enumerate() {
        let (id, name) = (format!("toolu_{index}"), document["name"].as_str().unwrap_or("Bash").to_owned());
        if name.is_empty() || Value::from(&*name).to_string().len() > 500 {
            continue;
        }
        let input = json!({ "it": document });
        let text = input.to_string();
        events.push(json!({ "type": "content_block_start", "index": index,
            "content_block": { "type": "tool_use", "id": id, "name": name, "input": {} } }));
        for piece in chunks(text.as_bytes()).chunks(4) {
            // A character that is cut is spoilt: such arguments are not compared.
            let piece = String::from_utf8_lossy(&piece.concat()).into_owned();
            events.push(json!({ "type": "content_block_delta", "index": index,
                "delta": { "type": "input_json_delta", "partial_json": piece } }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
        events.push(json!({ "type": "ping", "said": document }));
        expected.push((id, name, text.is_ascii().then_some(input)));
    }
    for end in ["\n", "\r\n"] {
        // One that breaks off is over at its empty line.
        let broken = format!("data: {{\"type\":\"content_block_start\",\"content_block\":{{\"id{end}{end}");
        let stream: String = events
            .iter()
            .map(|event| format!("event: {}{end}data: {event}{end}{end}", event["type"].as_str().unwrap_or_default()))
            .collect();
        let stream = broken + &stream;
        let mut read = of_answer(chunks(stream.as_bytes())).into_iter();
        let whole = tool_uses(ModelApi::AnthropicMessages, stream.as_bytes());
        assert_eq!(whole.len(), expected.len(), "{stream}");
        for ((id, name, input), call) in expected.iter().zip(whole) {
            assert_eq!((&call.id, &call.name), (id, name));
            assert_eq!(read.next(), Some(ToolBlock::Use { id: id.clone(), name: name.clone() }), "{stream}");
            let Some(ToolBlock::Input { id: of, input: read }) = read.next() else {
                panic!("no arguments in {stream}")
            };
            assert_eq!(&of, id);
            if let Some(input) = input {
                assert_eq!((read.as_ref(), &call.input), (Some(input), input), "{stream}");
            }
        }
        assert_eq!(read.next(), None);
    }
}
