//! The tool calls in one answer of a model, with their arguments: read off the whole answer, once it is there.
//!
//! For agents without a tool hook, whose calls nobody reports. Pure; an answer is bounded by whoever collects it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::ModelApi;

/// A tool that a model called.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AnsweredCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its arguments; text where they are not JSON.
    pub(crate) input: Value,
}

/// The calls in an answer, whole or streamed, in their order. What cannot be read holds none.
pub(crate) fn tool_uses(api: ModelApi, answer: &[u8]) -> Vec<AnsweredCall> {
    let first = answer.iter().find(|byte| !byte.is_ascii_whitespace());
    let documents: Vec<Value> = match first {
        Some(b'{') => serde_json::from_slice(answer).into_iter().collect(),
        _ => events(answer).collect(),
    };
    let mut calls = BTreeMap::new();
    for document in &documents {
        match api {
            ModelApi::AnthropicMessages => messages(document, &mut calls),
            ModelApi::OpenAiChatCompletions => chat(document, &mut calls),
            ModelApi::Other => {}
        }
    }
    calls.into_values().filter(|call| !call.name.is_empty()).map(Growing::end).collect()
}

/// The data of server-sent events. One that is cut off or not JSON is passed over.
fn events(stream: &[u8]) -> impl Iterator<Item = Value> {
    stream
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line.strip_prefix(b"data:")?.trim_ascii()).ok())
}

/// A call whose arguments may come in pieces.
#[derive(Default)]
struct Growing {
    id: String,
    name: String,
    input: Value,
    pieces: String,
}

impl Growing {
    fn end(self) -> AnsweredCall {
        let input = match self.pieces.is_empty() {
            true => self.input,
            false => serde_json::from_str(&self.pieces).unwrap_or(Value::String(self.pieces)),
        };
        AnsweredCall { id: self.id, name: self.name, input }
    }
}

/// By the number of the choice, and of the block or the call in it.
type Calls = BTreeMap<(u64, u64), Growing>;

fn messages(document: &Value, calls: &mut Calls) {
    let mut block = |index: u64, block: &Value| {
        if text(block, "type") == "tool_use" {
            let call = calls.entry((0, index)).or_default();
            call.id = text(block, "id").to_owned();
            call.name = text(block, "name").to_owned();
            call.input = block.get("input").cloned().unwrap_or_default();
        }
    };
    for (index, content) in (0..).zip(document.get("content").and_then(Value::as_array).into_iter().flatten()) {
        block(index, content);
    }
    let index = document.get("index").and_then(Value::as_u64).unwrap_or(0);
    match text(document, "type") {
        "content_block_start" => block(index, document.get("content_block").unwrap_or(&Value::Null)),
        "content_block_delta" => {
            let piece = document.get("delta").map(|delta| text(delta, "partial_json")).unwrap_or_default();
            if let Some(call) = calls.get_mut(&(0, index)) {
                call.pieces.push_str(piece);
            }
        }
        _ => {}
    }
}

fn chat(document: &Value, calls: &mut Calls) {
    for (place, choice) in (0..).zip(document.get("choices").and_then(Value::as_array).into_iter().flatten()) {
        let place = choice.get("index").and_then(Value::as_u64).unwrap_or(place);
        let said = choice.get("message").or_else(|| choice.get("delta")).and_then(|said| said.get("tool_calls"));
        for (number, told) in (0..).zip(said.and_then(Value::as_array).into_iter().flatten()) {
            let number = told.get("index").and_then(Value::as_u64).unwrap_or(number);
            let call = calls.entry((place, number)).or_default();
            let function = told.get("function").unwrap_or(&Value::Null);
            call.id.push_str(text(told, "id"));
            call.name.push_str(text(function, "name"));
            call.pieces.push_str(text(function, "arguments"));
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn calls(api: ModelApi, answer: &str) -> Vec<(String, String, Value)> {
        tool_uses(api, answer.as_bytes()).into_iter().map(|call| (call.id, call.name, call.input)).collect()
    }

    fn expected() -> Vec<(String, String, Value)> {
        let call = |id: &str, name: &str, input| (id.to_owned(), name.to_owned(), input);
        vec![call("a", "bash", json!({ "command": "ls" })), call("b", "read", json!({}))]
    }

    #[test]
    fn messages_are_read_whole_and_streamed() {
        let whole = json!({ "content": [
            { "type": "text", "text": "look" },
            { "type": "tool_use", "id": "a", "name": "bash", "input": { "command": "ls" } },
            { "type": "tool_use", "id": "b", "name": "read", "input": {} },
        ]});
        assert_eq!(calls(ModelApi::AnthropicMessages, &whole.to_string()), expected());
        let start = |index: u64, id: &str, name: &str| {
            json!({ "type": "content_block_start", "index": index,
                "content_block": { "type": "tool_use", "id": id, "name": name, "input": {} } })
        };
        let delta = |index: u64, piece: &str| {
            json!({ "type": "content_block_delta", "index": index,
                "delta": { "type": "input_json_delta", "partial_json": piece } })
        };
        let events = [start(1, "a", "bash"), delta(1, "{\"comm"), delta(1, "and\":\"ls\"}"), start(2, "b", "read")];
        let stream: String = events.iter().map(|event| format!("event: x\r\ndata: {event}\r\n\r\n")).collect();
        assert_eq!(calls(ModelApi::AnthropicMessages, &stream), expected());
    }

    #[test]
    fn chat_completions_are_read_whole_and_streamed() {
        let call = |id: &str, name: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        let whole = json!({ "choices": [{ "message": { "tool_calls": [
            call("a", "bash", "{\"command\":\"ls\"}"), call("b", "read", "{}"),
        ]}}]});
        assert_eq!(calls(ModelApi::OpenAiChatCompletions, &whole.to_string()), expected());
        let chunk = |call: Value| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
        let piece = |index: u64, arguments: &str| json!({ "index": index, "function": { "arguments": arguments } });
        let first =
            |index: u64, id: &str, name: &str| json!({ "index": index, "id": id, "function": { "name": name } });
        let chunks = [
            chunk(first(0, "a", "bash")),
            chunk(piece(0, "{\"command\"")),
            chunk(piece(0, ":\"ls\"}")),
            chunk(first(1, "b", "read")),
            chunk(piece(1, "{}")),
        ];
        let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        assert_eq!(calls(ModelApi::OpenAiChatCompletions, &format!("{stream}data: [DONE]\n\n")), expected());
    }

    #[test]
    fn arguments_that_are_not_json_are_kept_as_text() {
        let answer = json!({ "choices": [{ "message": { "tool_calls": [
            { "id": "a", "function": { "name": "bash", "arguments": "{broken" } },
        ]}}]});
        assert_eq!(calls(ModelApi::OpenAiChatCompletions, &answer.to_string())[0].2, json!("{broken"));
        assert_eq!(calls(ModelApi::Other, &answer.to_string()), []);
    }

    proptest! {
        #[test]
        fn nothing_that_a_model_says_is_too_odd(answer in prop::collection::vec(any::<u8>(), 0..300)) {
            for api in [ModelApi::AnthropicMessages, ModelApi::OpenAiChatCompletions] {
                tool_uses(api, &answer);
                tool_uses(api, &[b"data: {\"choices\":".as_slice(), &answer].concat());
            }
        }
    }
}
