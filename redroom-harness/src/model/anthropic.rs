//! The Anthropic Messages API, as far as a coding agent needs it: what it sends becomes a [`Conversation`], what is played
//! becomes an answer, streamed or whole.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::conversation::{Block, Conversation, Message, Role, Tool, ToolResult};
use super::function::Model;
use super::{ModelCall, Note, Upstream, sse};
use crate::error::{Error, Result};
use crate::outbound::{Body, full};

/// The largest request that the real service takes.
const REQUEST_LIMIT: usize = 32 * 1024 * 1024;

/// Serves a model that is played in this process.
pub(crate) struct MessagesApi {
    model: Model,
}

impl MessagesApi {
    pub(crate) fn new(model: Model) -> Self {
        MessagesApi { model }
    }

    async fn message(&self, run: &str, headers: &HeaderMap, body: &Value) -> Result<http::Response<Body>> {
        let conversation = match conversation(headers, body) {
            Ok(conversation) => conversation,
            Err(why) => return Ok(refusal(StatusCode::BAD_REQUEST, "invalid_request_error", &why)),
        };
        let seed = seed(run, &conversation);
        let model = conversation.model.clone();
        let played = self.model.play(conversation).await?;
        let message =
            sse::AnswerMessage { model: &model, seed: &seed, position: played.position, answer: &played.answer };
        let mut response = if body.get("stream").and_then(Value::as_bool).unwrap_or(false) {
            let mut response = http::Response::new(message.streamed());
            response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
            response
        } else {
            json_response(StatusCode::OK, &message.whole())
        };
        if let Some(note) = played.note {
            response.extensions_mut().insert(Note(note));
        }
        Ok(response)
    }
}

#[async_trait]
impl Upstream for MessagesApi {
    async fn answer(&self, call: ModelCall) -> Result<http::Response<Body>> {
        let path = call.target.split('?').next().unwrap_or_default();
        match (&call.method, path) {
            (&Method::POST, "/v1/messages" | "/v1/messages/count_tokens") => {
                let Some(bytes) = read(call.body).await? else {
                    return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", "larger than 32 MB"));
                };
                let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
                    return Ok(refusal(StatusCode::BAD_REQUEST, "invalid_request_error", "the body is not JSON"));
                };
                if path.ends_with("count_tokens") {
                    Ok(json_response(StatusCode::OK, &json!({ "input_tokens": sse::tokens(bytes.len()) })))
                } else {
                    self.message(&call.run, &call.headers, &body).await
                }
            }
            (&Method::GET, "/v1/models") => Ok(json_response(StatusCode::OK, &models())),
            _ => Ok(refusal(StatusCode::NOT_FOUND, "not_found_error", "a played model has no such endpoint")),
        }
    }
}

pub(super) async fn read(body: Body) -> Result<Option<Bytes>> {
    match Limited::new(body, REQUEST_LIMIT).collect().await {
        Ok(collected) => Ok(Some(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => Error::redroom("model_request_lost", error.to_string()),
        }),
    }
}

fn models() -> Value {
    let id = "claude-scripted";
    json!({
        "data": [{ "type": "model", "id": id, "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z" }],
        "has_more": false, "first_id": id, "last_id": id,
    })
}

pub(super) fn json_response(status: StatusCode, body: &Value) -> http::Response<Body> {
    let mut response = http::Response::new(full(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn refusal(status: StatusCode, kind: &str, message: &str) -> http::Response<Body> {
    json_response(status, &json!({ "type": "error", "error": { "type": kind, "message": message } }))
}

/// What sets the ids of one conversation apart from those of all others, and is the same when a request is repeated.
pub(super) fn seed(run: &str, conversation: &Conversation) -> String {
    let mut hash = Sha256::new();
    let opening = conversation.messages.first().into_iter().flat_map(Message::texts).map(str::trim);
    for part in [run, conversation.sub_agent.as_deref().unwrap_or_default()].into_iter().chain(opening) {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a request. Lenient where the real service is strict: whatever an agent sends is worth an answer, as long as there
/// is a conversation in it.
fn conversation(headers: &HeaderMap, body: &Value) -> std::result::Result<Conversation, String> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("messages: a list is required")?;
    if messages.is_empty() {
        return Err("messages: at least one is required".to_owned());
    }
    // Agents also speak as the system in mid-conversation; nothing of that is the user's.
    let (system, messages): (Vec<_>, Vec<_>) =
        messages.iter().partition(|message| text_of(message, "role") == "system");
    let system = std::iter::once(body.get("system")).chain(system.iter().map(|message| message.get("content")));
    let system: Vec<_> = system.flatten().map(plain_text).collect();
    let mut messages = messages.into_iter().map(message).collect::<std::result::Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err("messages: one of the user's is required".to_owned());
    }
    name_results(&mut messages);
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(tool).collect();
    Ok(Conversation {
        model: text_of(body, "model").to_owned(),
        system: system.join("\n"),
        messages,
        tools,
        sub_agent: headers.get("x-claude-code-agent-id").and_then(|id| id.to_str().ok()).map(str::to_owned),
        names_session: headers.contains_key("x-claude-code-session-id"),
    })
}

fn message(value: &Value) -> std::result::Result<Message, String> {
    let role = match text_of(value, "role") {
        "assistant" => Role::Assistant,
        "user" => Role::User,
        _ => return Err("messages: role is neither user nor assistant".to_owned()),
    };
    let blocks = match value.get("content") {
        Some(Value::String(text)) => vec![Block::Text(text.clone())],
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect(),
        _ => return Err("messages: content is neither text nor a list of blocks".to_owned()),
    };
    Ok(Message { role, blocks })
}

fn block(value: &Value) -> Block {
    match text_of(value, "type") {
        "text" => Block::Text(text_of(value, "text").to_owned()),
        "tool_use" => Block::ToolUse {
            id: text_of(value, "id").to_owned(),
            name: text_of(value, "name").to_owned(),
            input: value.get("input").cloned().unwrap_or_default(),
        },
        "tool_result" => Block::ToolResult(ToolResult {
            call: text_of(value, "tool_use_id").to_owned(),
            tool: None,
            text: value.get("content").map(plain_text).unwrap_or_default().into_owned(),
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        }),
        _ => Block::Other(value.clone()),
    }
}

fn tool(value: &Value) -> Option<Tool> {
    let name = value.get("name")?.as_str()?.to_owned();
    // Tools of the agent's have no type or `custom`; the service's own carry a dated one.
    let server_side = value.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "custom");
    Some(Tool { name, description: text_of(value, "description").to_owned(), server_side })
}

/// Tells each tool result which tool it is of.
pub(super) fn name_results(messages: &mut [Message]) {
    let mut names = std::collections::HashMap::new();
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        match block {
            Block::ToolUse { id, name, .. } => drop(names.insert(id.clone(), name.clone())),
            Block::ToolResult(result) => result.tool = names.get(&result.call).cloned(),
            Block::Text(_) | Block::Other(_) => {}
        }
    }
}

pub(super) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The text of what may be a string or a list of blocks.
pub(super) fn plain_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
            Cow::Owned(texts.join("\n"))
        }
        _ => Cow::Borrowed(""),
    }
}
