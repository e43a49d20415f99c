//! The run as its slot's tenant: what the sidecar reports goes into the journal, what it asks goes to the model and the guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use redroom_sidecar::wire::{Hit, ModelRequest};

use super::ledger::Ledger;
use super::{answer, claims};
use crate::agent::{ModelApi, ToolHook};
use crate::error::{By, Error};
use crate::evidence::{Journal, RecordedToolCall};
use crate::guard::{Guard, HookEvent};
use crate::link::Tenant;
use crate::model::{Body, ModelCall, Note, Upstream};

/// The run as its slot's tenant.
pub(crate) struct Recorder {
    run: String,
    journal: Arc<Journal>,
    upstream: Arc<dyn Upstream>,
    guard: Guard,
    ledger: Arc<Ledger>,
    /// Whether the agent's settings are known to be in force: no model request is answered before that.
    hooked: AtomicBool,
    /// Whether a model request of this turn was refused for that.
    refused: AtomicBool,
    manner: Manner,
}

/// How the run's agent speaks to its model and to the hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) hook: ToolHook,
    pub(crate) api: ModelApi,
}

impl Recorder {
    pub(crate) fn new(
        run: String,
        journal: Arc<Journal>,
        upstream: Arc<dyn Upstream>,
        guard: Guard,
        manner: Manner,
    ) -> Self {
        Recorder {
            run,
            journal,
            upstream,
            guard,
            ledger: Arc::default(),
            hooked: AtomicBool::new(!manner.hook.announces_turns()),
            refused: AtomicBool::new(false),
            manner,
        }
    }

    /// A turn begins: its own announcement has to come before its first model request.
    pub(crate) fn expect_announcement(&self) {
        self.hooked.store(!self.manner.hook.announces_turns(), Ordering::SeqCst);
        self.refused.store(false, Ordering::SeqCst);
    }

    /// What is wrong if an agent that should report all its tool calls did not.
    pub(crate) fn unreported(&self) -> Option<Error> {
        if self.manner.hook.is_expected() { self.ledger.unreported() } else { None }
    }

    /// Whether the turn asked its model before it was announced.
    pub(crate) fn went_unannounced(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tenant for Recorder {
    fn hit(&self, hit: Hit) {
        self.journal.hit(hit);
    }

    fn model_request(&self, request: ModelRequest) {
        self.journal.model_request(request);
    }

    fn fault(&self, error: Error) {
        self.journal.error(error);
    }

    async fn model(&self, number: u64, mut call: ModelCall) -> Response<Body> {
        let can_call_tools = can_call_tools(&call);
        if can_call_tools && !self.hooked.load(Ordering::SeqCst) {
            let error = hook_not_loaded();
            self.refused.store(true, Ordering::SeqCst);
            self.journal.model_call_failed(number, error.clone());
            return refusal(StatusCode::FORBIDDEN, &error);
        }
        if can_call_tools {
            call.body = self.ledger.request(call.body);
        }
        let answer = self.upstream.answer(call).await.and_then(|answer| {
            if let Some(Note(error)) = answer.extensions().get() {
                self.journal.error(error.clone());
            }
            answer::admit(answer, number, &self.journal)
        });
        let answer = answer.map(|answer| match can_call_tools {
            true if self.manner.hook.asks() => self.ledger.answer(answer),
            true => claims::read(answer, self.manner.api, &self.journal),
            false => answer,
        });
        answer.unwrap_or_else(|error| {
            let error = self.journal.redactor().error(error);
            self.journal.model_call_failed(number, error.clone());
            let status = if error.code() == "timeout" { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
            refusal(status, &error)
        })
    }

    async fn hook(&self, payload: Bytes) -> Bytes {
        let at_ms = self.journal.at_ms();
        let call = match HookEvent::parse(&payload) {
            Ok(HookEvent::UserPromptSubmit { .. }) => {
                self.hooked.store(true, Ordering::SeqCst);
                return Bytes::from_static(b"{}");
            }
            Ok(HookEvent::Other { .. }) => return Bytes::from_static(b"{}"),
            Ok(HookEvent::PreToolUse(call)) => Some(*call),
            Err(_) => None,
        };
        let in_model_answer = call.as_ref().map(|call| self.ledger.reported(call)).unwrap_or_default();
        let ruling = self.guard.ask(&self.run, &payload).await;
        if let Some(error) = &ruling.error {
            self.journal.error(error.clone());
        }
        // The guard's own words, unless they hold what the agent must not see.
        let answer = self.journal.redactor().answer(ruling.answer.clone());
        let recorded = RecordedToolCall::new(at_ms, call, ruling, &payload);
        self.journal.tool_call(RecordedToolCall { in_model_answer, ..recorded });
        answer
    }

    fn run(&self) -> &str {
        &self.run
    }
}

/// Whether the answer to this request can make the agent act. Counting tokens and listing models cannot, and agents ask for
/// them outside any turn.
fn can_call_tools(call: &ModelCall) -> bool {
    let path = call.target.split('?').next().unwrap_or_default();
    call.method == Method::POST && !path.ends_with("/count_tokens")
}

pub(crate) fn hook_not_loaded() -> Error {
    Error::new(
        By::Agent,
        "hook_not_loaded",
        "the agent asked its model before its prompt hook had been called: its managed settings are not in force, so no tool \
         call would be seen or checked; look at the turn's standard error for what is wrong with them",
    )
}

/// An answer in the form in which model APIs give their errors, and which a client does not try again. Where a service is
/// that failed is nothing that the agent learns.
fn refusal(status: StatusCode, error: &Error) -> Response<Body> {
    let detail = match error.call().and_then(|call| call.url.as_ref()) {
        Some(_) => "the model could not be asked, or did not answer as it should; see the run's errors",
        None => error.detail(),
    };
    let body = serde_json::json!({
        "type": "error",
        "error": { "type": error.code(), "message": format!("redroom: {detail}") },
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    let mut response = Response::new(BodyExt::boxed_unsync(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert("x-should-retry", http::HeaderValue::from_static("false"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Call;

    #[tokio::test]
    async fn an_agent_is_told_what_to_do_and_not_where_a_service_is() {
        let told = async |error: Error| {
            let body = refusal(StatusCode::BAD_GATEWAY, &error).into_body().collect().await.unwrap().to_bytes();
            String::from_utf8(body.to_vec()).unwrap()
        };
        let call = Call { url: Some("http://gateway.internal/".to_owned()), ..Call::default() };
        let error = Error::new(By::ModelProxy, "network_error", "the model proxy http://gateway.internal/ is gone");
        let message = told(error.with_call(call)).await;
        assert!(message.contains("network_error") && !message.contains("gateway.internal"), "{message}");
        assert!(told(hook_not_loaded()).await.contains("managed settings"));
    }
}
