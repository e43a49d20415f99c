//! An answer in the Messages format: as a stream of server-sent events, or whole.
//!
//! Complete and in order, or the agent throws the answer away and asks again without streaming.

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};

use super::answer::Answer;
use super::function::call_id;
use crate::outbound::Body;

/// How much text or JSON one event carries, in bytes.
const DELTA: usize = 32 * 1024;

/// What the agent is told that its request and the answer weighed. Small and always the same: no agent sums a conversation
/// up, or stops for its budget, because of a played model.
const INPUT_TOKENS: usize = 10;
const OUTPUT_TOKENS: usize = 20;

/// One answer with what its ids are made of.
pub(super) struct AnswerMessage<'a> {
    pub(super) model: &'a str,
    pub(super) seed: &'a str,
    pub(super) position: usize,
    pub(super) answer: &'a Answer,
}

impl AnswerMessage<'_> {
    /// The answer to a request without `stream`.
    pub(super) fn whole(&self) -> Value {
        self.message(self.blocks(), Some(self.stop_reason()), OUTPUT_TOKENS)
    }

    /// The answer as server-sent events, one frame each.
    pub(super) fn streamed(&self) -> Body {
        let frames = self.events().into_iter().map(|event| Ok(Frame::data(event)));
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    }

    fn events(&self) -> Vec<Bytes> {
        let mut events = vec![
            event(&json!({ "type": "message_start", "message": self.message(Vec::new(), None, 1) })),
            event(&json!({ "type": "ping" })),
        ];
        for (index, block) in self.blocks().into_iter().enumerate() {
            let (start, deltas) = opened(block);
            events.push(event(&json!({ "type": "content_block_start", "index": index, "content_block": start })));
            events.extend(
                deltas
                    .into_iter()
                    .map(|delta| event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))),
            );
            events.push(event(&json!({ "type": "content_block_stop", "index": index })));
        }
        events.push(event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": self.stop_reason(), "stop_sequence": null },
            "usage": usage(OUTPUT_TOKENS),
        })));
        events.push(event(&json!({ "type": "message_stop" })));
        events
    }

    fn message(&self, content: Vec<Value>, stop_reason: Option<&str>, output_tokens: usize) -> Value {
        json!({
            "id": format!("msg_rr{}_{}", self.seed, self.position),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": null,
            "usage": usage(output_tokens),
        })
    }

    fn blocks(&self) -> Vec<Value> {
        let text = self.answer.spoken().map(|text| json!({ "type": "text", "text": text }));
        let calls = self.answer.calls.iter().enumerate().map(|(number, call)| {
            let id = call_id(self.seed, self.position, number);
            json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.input })
        });
        text.into_iter().chain(calls).collect()
    }

    fn stop_reason(&self) -> &'static str {
        if self.answer.ends_turn() { "end_turn" } else { "tool_use" }
    }
}

/// Roughly how many tokens so many bytes are.
pub(super) fn tokens(bytes: usize) -> usize {
    bytes / 4 + 1
}

fn usage(output_tokens: usize) -> Value {
    json!({
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    })
}

/// A block as it starts, empty, and the deltas that fill it.
fn opened(mut block: Value) -> (Value, Vec<Value>) {
    if let Some(input) = block.get_mut("input") {
        let json = std::mem::replace(input, json!({})).to_string();
        let deltas = pieces(&json).map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })).collect();
        return (block, deltas);
    }
    let text = block["text"].as_str().unwrap_or_default();
    let deltas = pieces(text).map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
    (json!({ "type": "text", "text": "" }), deltas)
}

/// The text in pieces of at most [`DELTA`] bytes, cut between characters.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut end = text.len().min(DELTA);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn event(data: &Value) -> Bytes {
    let name = data["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
