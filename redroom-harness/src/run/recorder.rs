//! The run as its slot's tenant: what the sidecar reports goes into the journal, what it asks goes to the model and the guard.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use redroom_sidecar::wire::{Hit, ModelRequest};

use super::admission::{Admission, Refused};
use super::ledger::Ledger;
use super::{answer, claims};
use crate::agent::{ModelApi, ToolHook};
use crate::error::{By, Error};
use crate::evidence::{Claim, Journal, Ran, RecordedToolCall};
use crate::guard::{FLOOD, Guard, HookEvent, Ruling, ToolCall};
use crate::link::Tenant;
use crate::model::{Body, ModelCall, Note, Upstream};

/// The run as its slot's tenant.
pub(crate) struct Recorder {
    run: String,
    journal: Arc<Journal>,
    admission: Admission,
    upstream: Arc<dyn Upstream>,
    guard: Guard,
    ledger: Arc<Ledger>,
    /// Whether the agent's settings are known to be in force: no model request is answered before that.
    hooked: AtomicBool,
    /// Whether a model request of this turn was refused for that.
    refused: AtomicBool,
    /// Why this turn's last model request got no answer, if it got none.
    unanswered: Mutex<Option<Error>>,
    manner: Manner,
    /// How many reports were made up.
    made_up: AtomicU32,
    flooded: AtomicBool,
    /// What answers of the guard meant and did not say, as far as it was told.
    unheard: Mutex<HashSet<String>>,
}

/// How the run's agent speaks to its model and to the hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) hook: ToolHook,
    pub(crate) api: ModelApi,
}

/// The most made-up reports of a run that its guard is asked about: a process in the sandbox is not to make this side call
/// a service for ever.
const MAX_MADE_UP: u32 = 1_000;
/// The most forms of answers that the run tells of.
const MAX_UNHEARD: usize = 16;
/// The most calls that ran past the hook that are listed one by one.
const MAX_MISSING: usize = 1_000;

impl Recorder {
    pub(crate) fn new(
        run: String,
        journal: Arc<Journal>,
        admission: Admission,
        upstream: Arc<dyn Upstream>,
        guard: Guard,
        manner: Manner,
    ) -> Self {
        Recorder {
            run,
            journal,
            admission,
            upstream,
            guard,
            ledger: Arc::default(),
            hooked: AtomicBool::new(!manner.hook.announces_turns()),
            refused: AtomicBool::new(false),
            unanswered: Mutex::default(),
            manner,
            made_up: AtomicU32::new(0),
            flooded: AtomicBool::new(false),
            unheard: Mutex::default(),
        }
    }

    /// A turn begins: its own announcement has to come before its first model request.
    pub(crate) fn expect_announcement(&self) {
        self.hooked.store(!self.manner.hook.announces_turns(), Ordering::SeqCst);
        self.refused.store(false, Ordering::SeqCst);
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why the turn's last model request got no answer, if it got none.
    pub(crate) fn unanswered(&self) -> Option<Error> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The run is over: what the hook did not tell, and what ran against its word, goes into the journal.
    pub(crate) fn settle(&self) {
        if self.manner.hook.is_expected() {
            for missing in self.ledger.missing().into_iter().take(MAX_MISSING) {
                let at_ms = self.journal.at_ms();
                let call = RecordedToolCall::missing(at_ms, missing.id, missing.tool, missing.input, missing.ran);
                self.journal.tool_call(call);
            }
            self.ledger.faults().into_iter().for_each(|error| self.journal.error(error));
        }
        self.journal.tool_calls_ran(|id| self.ledger.has_run(id));
    }

    /// Asks the guard about a reported call, unless too many were made up.
    async fn rule(&self, claim: Claim, payload: &[u8]) -> Ruling {
        let counts = claim.is_made_up() || claim == Claim::Repeated;
        if counts && self.made_up.fetch_add(1, Ordering::Relaxed) >= MAX_MADE_UP {
            let detail = format!(
                "more than {MAX_MADE_UP} tool calls were reported that no model asked for, or not again; from then on such calls were \
                 denied and the guard not asked"
            );
            return Ruling::denial(Error::new(By::Agent, FLOOD, detail), Duration::ZERO);
        }
        self.guard.ask(&self.run, payload).await
    }

    /// The guard meant something that the agent does not hear: once for each form of answer. What the agent calls its tool is left
    /// out: it can be a secret's value, and errors are shown.
    fn tell_unheard(&self, unheard: &str) {
        let mut told = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MAX_UNHEARD && told.insert(unheard.to_owned()) {
            let detail = format!("an answer of the guard was passed on, and the agent ran the tool: {unheard}");
            self.journal.error(Error::new(By::ToolCallCheck, "guard_answer_ignored", detail));
        }
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

    async fn model(&self, number: u64, call: ModelCall) -> Response<Body> {
        let can_call_tools = can_call_tools(&call);
        let hooked = self.hooked.load(Ordering::SeqCst);
        let (asks, admitted) = self.admission.admit(call).await;
        self.journal.model_call_asks(number, asks);
        if can_call_tools && !hooked {
            let error = hook_not_loaded();
            self.refused.store(true, Ordering::SeqCst);
            self.journal.model_call_failed(number, error.clone());
            return refusal(StatusCode::FORBIDDEN, &error);
        }
        let mut call = match admitted {
            Ok(call) => call,
            Err(Refused { status, error }) => {
                let error = self.journal.redactor().error(error);
                self.journal.model_call_failed(number, error.clone());
                return refusal(status, &error);
            }
        };
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
        let unanswered = answer.as_ref().err().map(|error| self.journal.redactor().error(error.clone()));
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&unanswered);
        answer.unwrap_or_else(|error| {
            let error = unanswered.unwrap_or(error);
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
            Ok(HookEvent::Ran { tool_use_id }) => {
                self.ledger.ran(&tool_use_id, Ran::Claimed);
                return Bytes::from_static(b"{}");
            }
            Ok(HookEvent::Other { .. }) => return Bytes::from_static(b"{}"),
            Ok(HookEvent::PreToolUse(call)) => Some(*call),
            Err(_) => None,
        };
        let claim = call.as_ref().map(|call| self.ledger.reported(call)).unwrap_or_default();
        let undecided = Undecided { recorder: self, at_ms, claim, payload: &payload, call: Some(call) };
        let ruling = self.rule(claim, &payload).await;
        let call = undecided.decided();
        if let Some(call) = call.as_ref().filter(|_| !claim.is_made_up()) {
            self.ledger.ruled(&call.tool_use_id, ruling.decision);
        }
        if let Some(error) = &ruling.error
            && !(error.code() == FLOOD && self.flooded.swap(true, Ordering::Relaxed))
        {
            self.journal.error(error.clone());
        }
        if let Some(unheard) = &ruling.unheard {
            self.tell_unheard(unheard);
        }
        // The guard's own words, unless they hold what the agent must not see.
        let answer = self.journal.redactor().answer(ruling.answer.clone());
        let recorded = RecordedToolCall::new(at_ms, call, ruling, &payload);
        self.journal.tool_call(RecordedToolCall { claim, ..recorded });
        answer
    }

    fn run(&self) -> &str {
        &self.run
    }
}

/// A reported call until its guard has spoken. Who reported it may be gone before: the call is on record all the same, or a process
/// in the sandbox could report what it is about to do, hang up, and have done nothing that anybody was told of.
struct Undecided<'a> {
    recorder: &'a Recorder,
    at_ms: u64,
    claim: Claim,
    payload: &'a Bytes,
    call: Option<Option<ToolCall>>,
}

impl Undecided<'_> {
    fn decided(mut self) -> Option<ToolCall> {
        self.call.take().flatten()
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let detail = "whoever reported the tool call left before it was decided: nobody was allowed to run it";
        let ruling = Ruling::denial(Error::new(By::Agent, "hook_abandoned", detail), Duration::ZERO);
        if let Some(call) = call.as_ref().filter(|_| !self.claim.is_made_up()) {
            self.recorder.ledger.ruled(&call.tool_use_id, ruling.decision);
        }
        let recorded = RecordedToolCall::new(self.at_ms, call, ruling, self.payload);
        self.recorder.journal.tool_call(RecordedToolCall { claim: self.claim, ..recorded });
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
        "error": { "type": error.code(), "code": error.code(), "message": format!("redroom: {detail}") },
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
    use redroom_sidecar::search::SecretSet;
    use serde_json::json;

    use super::*;
    use crate::error::Call;
    use crate::evidence::{Redactor, Store};
    use crate::guard::{Decision, IntoToolCallCheck};
    use crate::model::{Given, NoModelAccess, ProviderTools};
    use crate::outbound::{Client, Proxies, full};

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

    fn report(id: &str, command: &str, more: &str) -> Bytes {
        let payload = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": { "command": command },
            "tool_use_id": id, "more": more,
        });
        payload.to_string().into()
    }

    fn run_with(folder: &std::path::Path, guard: impl IntoToolCallCheck) -> Recorder {
        let store = Arc::new(Store::create(folder, "run").unwrap());
        let journal = Arc::new(Journal::new(SecretSet::new([("key", "PLATYPUS-7731")]), Redactor::new([""; 0]), store));
        let guard = guard.into_tool_call_check().open(&Client::new(Proxies::none()).unwrap()).unwrap();
        let admission = Admission::new(Given::default(), ProviderTools::default());
        let manner = Manner { hook: ToolHook::TurnsAndToolCalls, api: ModelApi::AnthropicMessages };
        Recorder::new("run".to_owned(), journal, admission, Arc::new(NoModelAccess), guard, manner)
    }

    /// A run whose guard counts how often it is asked.
    fn recorder(folder: &std::path::Path) -> (Recorder, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let counting = {
            let asked = asked.clone();
            move |call: ToolCall| {
                asked.fetch_add(1, Ordering::Relaxed);
                async move { if call.tool_input["command"] == "evil" { Decision::deny("no") } else { Decision::allow() } }
            }
        };
        (run_with(folder, counting), asked)
    }

    #[tokio::test]
    async fn a_report_whose_sender_leaves_before_the_guard_has_spoken_hides_no_call() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = run_with(folder.path(), async |_: ToolCall| std::future::pending::<Decision>().await);
        let call =
            json!({ "type": "tool_use", "id": "real", "name": "Bash", "input": { "command": "evil PLATYPUS-7731" } });
        let answer = json!({ "type": "message", "content": [call] }).to_string();
        recorder.ledger.answer(Response::new(full(answer))).into_body().collect().await.unwrap();
        {
            let mut report = std::pin::pin!(recorder.hook(report("real", "evil PLATYPUS-7731", "")));
            assert!(futures_util::poll!(&mut report).is_pending());
        }
        recorder.ledger.ran("real", Ran::Returned);
        recorder.settle();
        let calls = recorder.journal.tool_calls();
        assert_eq!(calls.len(), 1, "the call is on record nowhere");
        assert!(calls[0].denied() && calls[0].claim == Claim::Matched && !calls[0].secrets.is_empty());
        assert_eq!(calls[0].error.as_ref().map(Error::code), Some("hook_abandoned"));
        assert!(recorder.journal.errors().iter().any(|error| error.code() == "denied_call_ran"));
    }

    #[tokio::test]
    async fn a_flood_of_made_up_reports_takes_no_record_away_and_the_guard_is_not_asked_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, asked) = recorder(folder.path());
        let calls = ["real", "late"]
            .map(|id| json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": id } }));
        let answer = json!({ "type": "message", "content": calls }).to_string();
        recorder.ledger.answer(Response::new(full(answer))).into_body().collect().await.unwrap();
        recorder.hook(report("real", "real", "the first")).await;
        for number in 0..100_000_u32 {
            let answer = match number % 4 {
                0 => recorder.hook(report("real", "real", "again")).await,
                1 => recorder.hook(report("real", "evil", "altered")).await,
                2 => recorder.hook(report(&format!("toolu_{number}"), "evil PLATYPUS-7731", "forged")).await,
                _ => recorder.hook(Bytes::from_static(b"{ no payload")).await,
            };
            let denied = String::from_utf8_lossy(&answer).contains("\"deny\"");
            assert!(denied || number % 4 == 0 || number < 2_000, "{number}");
        }
        // Neither its place nor its guard was taken from the call that comes after.
        let before = asked.load(Ordering::Relaxed);
        assert_eq!(before, MAX_MADE_UP + 1);
        let answer = recorder.hook(report("late", "late", "")).await;
        assert!(String::from_utf8_lossy(&answer).contains("\"allow\""));
        assert_eq!(asked.load(Ordering::Relaxed), before + 1);

        recorder.settle();
        let calls = recorder.journal.tool_calls();
        let real: Vec<_> = calls
            .iter()
            .filter(|call| call.tool_use_id.as_deref() == Some("real") && !call.claim.is_made_up())
            .collect();
        assert_eq!((real[0].id, real[0].claim, real[0].denied()), (1, Claim::Repeated, false));
        assert!(String::from_utf8_lossy(&real[0].payload.0).contains("the first"));
        let late = calls.iter().find(|call| call.tool_use_id.as_deref() == Some("late")).unwrap();
        assert_eq!((late.claim, late.denied()), (Claim::Matched, false));
        assert!(calls.len() <= 20_100, "{}", calls.len());
        assert!(calls.iter().any(|call| call.claim == Claim::Forged && !call.secrets.is_empty()));
        let codes: Vec<_> = recorder.journal.errors().iter().map(|error| error.code().to_owned()).collect();
        for (code, most) in [(FLOOD, 1), ("invalid_payload", 50), ("entries_dropped", 2), ("tool_calls_dropped", 0)] {
            assert_eq!(codes.iter().filter(|told| *told == code).count(), most, "{code}");
        }
        assert!(!codes.iter().any(|code| code == "denied_call_ran"));
    }
}
