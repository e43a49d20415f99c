//! An agent as a model sees it: sends what a real one sends, and reads answers as strictly.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::error::Result;
use crate::model::{IntoModel, MessagesApi, ModelCall, Note, Upstream as _};
use crate::outbound::full;

const REMINDER: &str = "<system-reminder>\n<total_tokens>15000000 tokens left</total_tokens>\n</system-reminder>\n";

/// An agent with one conversation, which repeats it whole with every request.
pub(super) struct Agent {
    pub(super) api: MessagesApi,
    pub(super) messages: Vec<Value>,
    pub(super) sub_agent: Option<&'static str>,
}

/// What it got.
pub(super) struct Reply {
    pub(super) message: Value,
    pub(super) note: Option<String>,
}

impl Reply {
    pub(super) fn text(&self) -> &str {
        self.blocks().iter().find_map(|block| block["text"].as_str()).unwrap_or_default()
    }

    pub(super) fn blocks(&self) -> &[Value] {
        self.message["content"].as_array().unwrap()
    }

    pub(super) fn calls(&self) -> Vec<&Value> {
        self.blocks().iter().filter(|block| block["type"] == "tool_use").collect()
    }

    pub(super) fn command(&self) -> &str {
        self.calls()[0]["input"]["command"].as_str().unwrap()
    }
}

impl Agent {
    pub(super) fn new(model: impl IntoModel) -> Self {
        Agent { api: MessagesApi::new(model.into_model()), messages: Vec::new(), sub_agent: None }
    }

    pub(super) fn user(&mut self, text: &str) {
        self.messages.push(json!({ "role": "user", "content": [
            { "type": "text", "text": "<system-reminder>\n# Environment\n</system-reminder>" },
            { "type": "text", "text": format!("{text}\n") },
        ]}));
    }

    /// What the agent itself adds after the user's words.
    pub(super) fn system(&mut self, text: &str) {
        self.messages.push(json!({ "role": "system", "content": [{ "type": "text", "text": text }] }));
    }

    pub(super) fn assistant(&mut self, content: &[Value]) {
        self.messages.push(json!({ "role": "assistant", "content": content }));
    }

    pub(super) fn results(&mut self, reply: &Reply, text: &str) {
        let results: Vec<Value> = reply
            .calls()
            .iter()
            .map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": text }))
            .chain([json!({ "type": "text", "text": REMINDER })])
            .collect();
        self.messages.push(json!({ "role": "user", "content": results }));
    }

    pub(super) async fn ask(&self) -> Reply {
        self.request(true, &self.messages, &[json!({ "name": "Bash", "description": "Runs", "input_schema": {} })])
            .await
    }

    /// Asks, keeps the answer, and runs the tools: each gives back `result`.
    pub(super) async fn step(&mut self, result: &str) -> Reply {
        let reply = self.ask().await;
        self.assistant(reply.blocks());
        if !reply.calls().is_empty() {
            self.results(&reply, result);
        }
        reply
    }

    pub(super) async fn request(&self, stream: bool, messages: &[Value], tools: &[Value]) -> Reply {
        let body = json!({
            "model": "claude-sonnet-4-5", "max_tokens": 32000, "stream": stream, "messages": messages, "tools": tools,
            "system": [{ "type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332" }],
        });
        let response = send(&self.api, Method::POST, "/v1/messages?beta=true", self.headers(), body.to_string()).await;
        let response = response.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let note = response.extensions().get::<Note>().map(|Note(error)| error.code().to_owned());
        let kind = response.headers()["content-type"].clone();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&bytes).unwrap();
        let message = if stream {
            assert_eq!(kind, "text/event-stream");
            replay(text)
        } else {
            assert_eq!(kind, "application/json");
            serde_json::from_str(text).unwrap()
        };
        Reply { message, note }
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-claude-code-session-id", HeaderValue::from_static("11111111-1111-4111-8111-111111111111"));
        if let Some(id) = self.sub_agent {
            headers.insert("x-claude-code-agent-id", HeaderValue::from_static(id));
        }
        headers
    }
}

pub(super) async fn send(
    api: &MessagesApi,
    method: Method,
    target: &str,
    headers: HeaderMap,
    body: String,
) -> Result<http::Response<crate::outbound::Body>> {
    api.answer(ModelCall {
        run: "run-1".into(),
        method,
        target: target.into(),
        headers,
        withheld: HeaderMap::new(),
        body: full(body),
    })
    .await
}

/// Puts a message together out of its events, and is as strict about their order as agents are.
fn replay(stream: &str) -> Value {
    let mut events = stream.split("\n\n").filter(|event| !event.is_empty()).map(|event| {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        data
    });
    let mut message = events.next().unwrap();
    assert_eq!(message["type"], "message_start");
    let mut message = message["message"].take();
    assert_eq!(message["content"], json!([]));
    assert!(message["usage"]["input_tokens"].is_u64() && message["stop_reason"].is_null());
    assert_eq!(events.next().unwrap()["type"], "ping");
    let mut content: Vec<Value> = Vec::new();
    let mut json = String::new();
    let mut open = false;
    for mut event in events.by_ref() {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!open && event["index"] == content.len());
                (open, json) = (true, String::new());
                content.push(event["content_block"].take());
            }
            "content_block_delta" => {
                assert!(open && event["index"] == content.len() - 1);
                let block = content.last_mut().unwrap();
                if let Some(piece) = event["delta"]["partial_json"].as_str() {
                    assert_eq!(block["type"], "tool_use");
                    json.push_str(piece);
                } else {
                    let text = block["text"].as_str().unwrap().to_owned() + event["delta"]["text"].as_str().unwrap();
                    block["text"] = text.into();
                }
            }
            "content_block_stop" => {
                assert!(std::mem::take(&mut open) && event["index"] == content.len() - 1);
                let block = content.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&json).unwrap();
                }
            }
            "message_delta" => {
                assert!(!open && event["usage"]["output_tokens"].as_u64().unwrap() > 0);
                message["stop_reason"] = event["delta"]["stop_reason"].take();
                message["usage"] = event["usage"].take();
                break;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.next().unwrap()["type"], "message_stop");
    assert!(events.next().is_none());
    message["content"] = content.into();
    message
}
