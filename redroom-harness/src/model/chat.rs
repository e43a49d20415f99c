//! OpenAI's Chat Completions, as far as a played model needs them: what an agent sends becomes a [`Conversation`], what is
//! played becomes an answer, whole or streamed.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};

use super::answer::Answer;
use super::anthropic::{json_response, name_results, plain_text, read, seed, text_of};
use super::conversation::{Block, Conversation, Message, Role, Tool, ToolResult};
use super::function::{Model, call_id};
use super::{ModelCall, Note, Upstream};
use crate::error::Result;
use crate::outbound::Body;

/// What every client is told that its request and the answer weighed: no agent stops for its budget because of a played model.
const TOKENS: u64 = 20;

/// Serves a model that is played in this process.
pub(crate) struct ChatApi {
    model: Model,
}

impl ChatApi {
    pub(crate) fn new(model: Model) -> Self {
        ChatApi { model }
    }

    async fn completion(&self, run: &str, body: &Value) -> Result<http::Response<Body>> {
        let conversation = match conversation(body) {
            Ok(conversation) => conversation,
            Err(why) => return Ok(refusal(StatusCode::BAD_REQUEST, why)),
        };
        let seed = seed(run, &conversation);
        let model = conversation.model.clone();
        let played = self.model.play(conversation).await?;
        let completion = Completion { model: &model, seed: &seed, position: played.position, answer: &played.answer };
        let mut response = match body.get("stream").and_then(Value::as_bool) {
            Some(true) => completion.streamed(),
            _ => json_response(StatusCode::OK, &completion.whole()),
        };
        if let Some(note) = played.note {
            response.extensions_mut().insert(Note(note));
        }
        Ok(response)
    }
}

#[async_trait]
impl Upstream for ChatApi {
    async fn answer(&self, call: ModelCall) -> Result<http::Response<Body>> {
        let path = call.target.split('?').next().unwrap_or_default();
        match call.method {
            Method::POST if path.ends_with("/chat/completions") => {
                let Some(bytes) = read(call.body).await? else {
                    return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the request is larger than 32 MB"));
                };
                match serde_json::from_slice::<Value>(&bytes) {
                    Ok(body) => self.completion(&call.run, &body).await,
                    Err(_) => Ok(refusal(StatusCode::BAD_REQUEST, "the body is not JSON")),
                }
            }
            Method::GET if path.ends_with("/models") => {
                let model = json!({ "id": "scripted", "object": "model", "created": 0, "owned_by": "redroom" });
                Ok(json_response(StatusCode::OK, &json!({ "object": "list", "data": [model] })))
            }
            _ => Ok(refusal(StatusCode::NOT_FOUND, "a played model has no such endpoint")),
        }
    }
}

fn refusal(status: StatusCode, message: &str) -> http::Response<Body> {
    let error = json!({ "message": message, "type": "invalid_request_error", "param": null, "code": null });
    json_response(status, &json!({ "error": error }))
}

/// Reads a request, as leniently as that of any other API.
fn conversation(body: &Value) -> std::result::Result<Conversation, &'static str> {
    let given = body.get("messages").and_then(Value::as_array).ok_or("messages: a list is required")?;
    let (mut system, mut messages) = (Vec::new(), Vec::new());
    for value in given {
        let text = value.get("content").map(plain_text).unwrap_or_default().into_owned();
        let (role, blocks) = match text_of(value, "role") {
            "system" | "developer" => {
                system.push(text);
                continue;
            }
            "user" => (Role::User, vec![Block::Text(text)]),
            "tool" => {
                let result =
                    ToolResult { call: text_of(value, "tool_call_id").to_owned(), text, ..ToolResult::default() };
                (Role::User, vec![Block::ToolResult(result)])
            }
            "assistant" => {
                let said = (!text.is_empty()).then_some(Block::Text(text));
                (Role::Assistant, said.into_iter().chain(calls(value)).collect())
            }
            _ => return Err("messages: a role is none of system, user, assistant and tool"),
        };
        messages.push(Message { role, blocks });
    }
    if messages.is_empty() {
        return Err("messages: one of the user's is required");
    }
    name_results(&mut messages);
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(tool).collect();
    Ok(Conversation {
        model: text_of(body, "model").to_owned(),
        system: system.join("\n"),
        messages,
        tools,
        sub_agent: None,
        names_session: false,
    })
}

fn calls(message: &Value) -> impl Iterator<Item = Block> {
    message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(|call| {
        let function = call.get("function").unwrap_or(&Value::Null);
        let arguments = text_of(function, "arguments");
        Block::ToolUse {
            id: text_of(call, "id").to_owned(),
            name: text_of(function, "name").to_owned(),
            input: serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned())),
        }
    })
}

fn tool(value: &Value) -> Option<Tool> {
    let function = value.get("function")?;
    let name = function.get("name")?.as_str()?.to_owned();
    Some(Tool { name, description: text_of(function, "description").to_owned(), server_side: false })
}

/// One answer with what its ids are made of.
struct Completion<'a> {
    model: &'a str,
    seed: &'a str,
    position: usize,
    answer: &'a Answer,
}

impl Completion<'_> {
    fn whole(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.answer.spoken() });
        let calls = self.calls();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let mut whole = self.frame("chat.completion", "message", message, Some(self.finish_reason()));
        whole["usage"] = usage();
        whole
    }

    /// Everything that is said in one chunk, then why it ends, then what it weighed.
    fn streamed(&self) -> http::Response<Body> {
        let mut delta = json!({ "role": "assistant", "content": self.answer.spoken() });
        let mut calls = self.calls();
        for (index, call) in calls.iter_mut().enumerate() {
            call["index"] = index.into();
        }
        if !calls.is_empty() {
            delta["tool_calls"] = calls.into();
        }
        let kind = "chat.completion.chunk";
        let mut last = self.frame(kind, "delta", json!({}), None);
        last["choices"] = json!([]);
        last["usage"] = usage();
        let chunks = [
            self.frame(kind, "delta", delta, None).to_string(),
            self.frame(kind, "delta", json!({}), Some(self.finish_reason())).to_string(),
            last.to_string(),
            "[DONE]".to_owned(),
        ];
        let frames = chunks.map(|chunk| Ok(Frame::data(Bytes::from(format!("data: {chunk}\n\n")))));
        let mut response = http::Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
        response
    }

    fn frame(&self, object: &str, name: &str, said: Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": format!("chatcmpl-rr{}_{}", self.seed, self.position),
            "object": object,
            "created": 0,
            "model": self.model,
            "choices": [{ "index": 0, name: said, "finish_reason": finish_reason }],
        })
    }

    fn calls(&self) -> Vec<Value> {
        let calls = self.answer.calls.iter().enumerate().map(|(number, call)| {
            let function = json!({ "name": call.name, "arguments": call.input.to_string() });
            json!({ "id": call_id(self.seed, self.position, number), "type": "function", "function": function })
        });
        calls.collect()
    }

    fn finish_reason(&self) -> &'static str {
        if self.answer.ends_turn() { "stop" } else { "tool_calls" }
    }
}

fn usage() -> Value {
    json!({ "prompt_tokens": TOKENS, "completion_tokens": TOKENS, "total_tokens": 2 * TOKENS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::ModelApi;
    use crate::model::{IntoModel as _, Script, tool_uses};
    use crate::outbound::full;

    fn script() -> ChatApi {
        let script = Script::new().call("bash", json!({ "command": "ls" })).respond(|conversation: &Conversation| {
            let result = conversation.results().next().expect("a result");
            Answer::say(format!("{:?} gave {}", result.tool, result.text))
        });
        ChatApi::new(script.into_model())
    }

    async fn ask(api: &ChatApi, body: Value) -> (StatusCode, String) {
        let call = ModelCall {
            run: "run".to_owned(),
            method: Method::POST,
            target: "/v1/chat/completions?x=1".to_owned(),
            headers: http::HeaderMap::new(),
            withheld: http::HeaderMap::new(),
            body: full(body.to_string()),
        };
        let answer = api.answer(call).await.unwrap();
        let status = answer.status();
        (status, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_script_is_played_step_by_step_whole_and_streamed() {
        let api = script();
        let opening = json!([{ "role": "developer", "content": "Be brief." }, { "role": "user", "content": "Look." }]);
        let (_, first) = ask(&api, json!({ "model": "m", "messages": opening })).await;
        let first: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
        let said = first["choices"][0]["message"].clone();
        assert_eq!(said["tool_calls"][0]["function"]["arguments"], "{\"command\":\"ls\"}");

        let (_, streamed) = ask(&api, json!({ "model": "m", "stream": true, "messages": opening })).await;
        assert!(streamed.ends_with("data: [DONE]\n\n"), "{streamed}");
        let calls = tool_uses(ModelApi::OpenAiChatCompletions, streamed.as_bytes());
        assert_eq!((calls[0].name.as_str(), &calls[0].input), ("bash", &json!({ "command": "ls" })));
        assert_eq!(said["tool_calls"][0]["id"], calls[0].id.as_str());

        let mut messages = opening.as_array().unwrap().clone();
        messages.push(said);
        messages.push(json!({ "role": "tool", "tool_call_id": calls[0].id, "content": "a.txt" }));
        let (_, second) = ask(&api, json!({ "model": "m", "messages": messages })).await;
        let second: Value = serde_json::from_str(&second).unwrap();
        assert_eq!(second["choices"][0]["message"]["content"], "Some(\"bash\") gave a.txt");
        assert_eq!(second["choices"][0]["finish_reason"], "stop");
    }

    #[tokio::test]
    async fn what_is_no_conversation_is_refused_in_the_apis_own_form() {
        for body in [json!({}), json!({ "messages": [] }), json!({ "messages": [{ "role": "x" }] })] {
            let (status, error) = ask(&script(), body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(error.contains("\"invalid_request_error\""), "{error}");
        }
    }
}
