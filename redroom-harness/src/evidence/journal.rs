//! One run's journal: hits, model calls, tool calls and errors in the order in which they came, bounded, and written to the
//! evidence folder as they come.
//!
//! Held values are taken out of everything before it is kept. Facts from the sidecar and claims from the agent's hook meet here; nothing is judged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use redroom_sidecar::search::{Encoding, SecretSet};
use redroom_sidecar::wire::{Hit, ModelRequest, Octets};
use serde::{Deserialize, Serialize};

use super::changes::FoundSecret;
use super::log::{Entry, Log};
use super::redactor::Redactor;
use super::store::Store;
use super::tool_call::RecordedToolCall;
use crate::error::Error;
use crate::run::Watched;

/// How a planted secret was seen: what no log drops the last entry of.
pub(crate) type Proof = (String, Encoding);

/// A request that the agent made to its model: what the relay saw of it, and what went wrong beyond it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelCall {
    /// What the relay saw.
    #[serde(flatten)]
    pub request: ModelRequest,
    /// Why it was not answered as it should have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// One run's journal. Every method may be called from any task.
#[derive(Debug)]
pub(crate) struct Journal {
    began: Instant,
    secrets: SecretSet,
    redactor: Redactor,
    store: Arc<Store>,
    /// Whoever watches the run, if somebody does.
    watched: Option<Arc<Watched>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    hits: Log<Hit>,
    model_calls: Log<ModelCall>,
    tool_calls: Log<RecordedToolCall>,
    next_tool_call: u64,
    /// Errors of model calls, which can come before the relay's own report of the call.
    model_errors: HashMap<u64, Error>,
    errors: Vec<Error>,
    errors_dropped: u64,
}

/// The most errors that a run keeps; a dead guard makes one for each call.
const MAX_ERRORS: usize = 200;

impl Journal {
    pub(crate) fn new(secrets: SecretSet, redactor: Redactor, store: Arc<Store>) -> Self {
        Journal { began: Instant::now(), secrets, redactor, store, watched: None, state: Mutex::default() }
    }

    /// The same, told of as it grows.
    #[must_use]
    pub(crate) fn watched_by(mut self, watched: Option<Arc<Watched>>) -> Self {
        self.watched = watched;
        self
    }

    pub(crate) fn watched(&self) -> Option<&Arc<Watched>> {
        self.watched.as_ref()
    }

    pub(crate) fn at_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn secrets(&self) -> &SecretSet {
        &self.secrets
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn hit(&self, hit: Hit) {
        let hit = self.redactor.value(hit);
        self.store.append("hits.jsonl", &hit);
        if let Some(watched) = &self.watched {
            watched.hit(&hit);
        }
        self.state().hits.put(hit.id, hit);
    }

    pub(crate) fn model_request(&self, request: ModelRequest) {
        let request = self.redactor.value(request);
        let mut state = self.state();
        let error = state.model_errors.get(&request.id).cloned();
        let call = ModelCall { request, error };
        self.store.append("model_calls.jsonl", &call);
        state.model_calls.put(call.request.id, call);
    }

    /// A model call went wrong beyond the relay.
    pub(crate) fn model_call_failed(&self, id: u64, error: Error) {
        let error = self.redactor.error(error);
        let mut state = self.state();
        if state.model_errors.len() < MAX_ERRORS {
            state.model_errors.insert(id, error.clone());
        }
        if let Some(mut call) = state.model_calls.get(id).cloned() {
            call.error = Some(error.clone());
            self.store.append("model_calls.jsonl", &call);
            state.model_calls.put(id, call);
        }
        drop(state);
        self.error(error);
    }

    /// Records a tool call and gives it its number; one that was reported before keeps its number. Anybody in the sandbox can
    /// report a call under the id of another: what [says something else](RecordedToolCall::repeats) is a call of its own,
    /// and takes nothing away.
    pub(crate) fn tool_call(&self, mut call: RecordedToolCall) {
        call.secrets = self.search(call.input.to_string().as_bytes());
        call = self.redactor.value(call);
        let mut state = self.state();
        let earlier = match &call.tool_use_id {
            None => None,
            _ => state.tool_calls.find(|earlier| call.repeats(earlier)),
        };
        match earlier.map(|earlier| (earlier.id, earlier.at_ms, earlier.reported)) {
            Some((id, at_ms, reported)) => {
                call.id = id;
                call.at_ms = at_ms;
                call.reported = reported + 1;
            }
            None => {
                state.next_tool_call += 1;
                call.id = state.next_tool_call;
                call.reported = 1;
            }
        }
        self.store.append("tool_calls.jsonl", &call);
        let told = self.watched.as_ref().map(|watched| (watched, call.clone()));
        state.tool_calls.put(call.id, call);
        drop(state);
        if let Some((watched, call)) = told {
            watched.tool_call(&call);
        }
    }

    pub(crate) fn error(&self, error: Error) {
        let error = self.redactor.error(error);
        let mut state = self.state();
        if state.errors.len() < MAX_ERRORS {
            self.store.append("errors.jsonl", &error);
            state.errors.push(error);
        } else {
            state.errors_dropped += 1;
        }
    }

    pub(crate) fn search(&self, bytes: &[u8]) -> Vec<FoundSecret> {
        self.secrets.search(bytes).into_iter().map(FoundSecret::from).collect()
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.state().hits.entries()
    }

    pub(crate) fn model_calls(&self) -> Vec<ModelCall> {
        self.state().model_calls.entries()
    }

    pub(crate) fn tool_calls(&self) -> Vec<RecordedToolCall> {
        self.state().tool_calls.entries()
    }

    /// Everything that did not go to plan, what was dropped or could not be written included.
    pub(crate) fn errors(&self) -> Vec<Error> {
        let state = self.state();
        let mut errors = state.errors.clone();
        const SEEN: &str = "every secret's first and last sighting are still there";
        const LOST: &str = "what the agent tried in them is not in this result; tool_calls.jsonl may have it";
        let dropped = [
            ("entries_dropped", "hits", state.hits.dropped(), SEEN),
            ("entries_dropped", "model calls", state.model_calls.dropped(), SEEN),
            ("tool_calls_dropped", "tool calls", state.tool_calls.dropped(), LOST),
            ("entries_dropped", "errors", state.errors_dropped, SEEN),
        ];
        for (code, kind, count, what) in dropped.into_iter().filter(|(_, _, count, _)| *count > 0) {
            let detail = format!("{count} {kind} were pushed out of the run's journal by newer ones; {what}");
            errors.push(Error::redroom(code, detail));
        }
        drop(state);
        errors.extend(self.store.shortfalls());
        errors
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn headers_weight(headers: &[(String, Octets)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
}

impl Entry for Hit {
    type Proof = Proof;

    fn weight(&self) -> usize {
        let dns = self.dns.as_ref().map_or(0, |dns| dns.name.len() + dns.message.len());
        256 + self.host.len() + self.path.len() + headers_weight(&self.headers) + self.body.len() + dns
    }

    fn proofs(&self) -> Vec<Proof> {
        self.secrets.iter().map(|found| (found.secret.clone(), found.encoding)).collect()
    }

    fn trim(&mut self) {
        if self.body.0.len() > 1024 {
            self.body.0.truncate(1024);
            self.truncated = true;
        }
    }
}

impl Entry for ModelCall {
    type Proof = Proof;

    fn weight(&self) -> usize {
        256 + self.request.path.len() + headers_weight(&self.request.headers)
    }

    fn proofs(&self) -> Vec<Proof> {
        self.request.secrets.iter().map(|found| (found.secret.clone(), found.encoding)).collect()
    }

    fn trim(&mut self) {
        self.request.headers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::evidence::RunResult;
    use crate::guard::{HookEvent, RecordedDecision, Ruling};

    fn journal() -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::create(folder.path(), "run").unwrap());
        (folder, Journal::new(SecretSet::new([("", "")]), Redactor::new([""; 0]), store))
    }

    fn call(number: usize, command: String) -> RecordedToolCall {
        let payload = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash",
            "tool_input": { "command": command }, "tool_use_id": format!("toolu_{number}"),
        })
        .to_string();
        let Ok(HookEvent::PreToolUse(call)) = HookEvent::parse(payload.as_bytes()) else { panic!("{payload}") };
        let ruling = Ruling {
            answer: "{}".into(),
            decision: RecordedDecision::Allow,
            reason: None,
            updated_input: None,
            checked: false,
            error: None,
            latency: Duration::ZERO,
        };
        RecordedToolCall::new(0, Some(*call), ruling, payload.as_bytes())
    }

    fn codes(journal: &Journal) -> Vec<String> {
        journal.errors().iter().map(|error| error.code().to_owned()).collect()
    }

    #[test]
    fn large_reports_do_not_push_small_ones_out() {
        let (_folder, journal) = journal();
        for number in 0..36 {
            journal.tool_call(call(number, format!("echo {number}")));
            journal.tool_call(call(1000 + number, "x".repeat(100_000)));
        }
        let calls = journal.tool_calls();
        let small = calls.iter().filter(|call| call.input["command"].as_str().unwrap().starts_with("echo"));
        assert_eq!((calls.len(), small.count()), (72, 36));
        assert!(calls[1].truncated && !calls[71].truncated);
        assert_eq!(codes(&journal), [""; 0]);
    }

    #[test]
    fn tool_calls_that_were_dropped_leave_a_run_open() {
        let (_folder, journal) = journal();
        for number in 0..4_000 {
            journal.tool_call(call(number, "x".repeat(1_000)));
        }
        assert_eq!(codes(&journal), ["tool_calls_dropped"]);
        let result: RunResult = serde_json::from_value(json!({
            "schema_version": 1, "id": "r", "attack": "a",
            "agent": { "name": "shell", "version": "1", "model": null },
            "backend": { "name": "docker", "isolated": true, "why": "" },
            "turns": [{ "index": 0, "message": "", "final_text": "", "duration_ms": 1, "exit_code": 0 }],
            "transcript": "", "tool_calls": [], "hits": [], "model_calls": [], "changes": [], "diff": "",
            "sightings": [], "visited_pages": [], "unvisited_pages": [], "errors": journal.errors(),
            "artifacts": { "folder": "/", "files": [] },
        }))
        .unwrap();
        assert_eq!(result.open_questions().len(), 1);
    }
}
