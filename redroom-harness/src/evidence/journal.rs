//! One run's journal: hits, model calls, tool calls and errors in the order in which they came, bounded, and written to the
//! evidence folder as they come.
//!
//! Held values are taken out of everything before it is kept. Facts from the sidecar and claims from the agent's hook meet here; nothing is judged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use redroom_sidecar::search::{Encoding, SecretSet, Unsearched, Why};
use redroom_sidecar::wire::{Found, Hit, ModelRequest, Octets};
use serde::{Deserialize, Serialize};

use super::changes::FoundSecret;
use super::log::{Entry, Log};
use super::redactor::Redactor;
use super::store::Store;
use super::tool_call::{Ran, RecordedToolCall};
use super::tool_calls::ToolCalls;
use crate::error::Error;
use crate::model::Ask;
use crate::run::Watched;

/// What no log drops the first and the last entry of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Proof {
    /// A planted secret was seen, in this disguise.
    Seen(String, Encoding),
    /// Something was not searched, for this reason: nobody knows what was in it.
    Unsearched(Why),
}

impl Proof {
    /// What was found and what was not searched.
    fn of(secrets: &[Found], unsearched: &[Unsearched]) -> Vec<Proof> {
        let seen = secrets.iter().map(|found| Proof::Seen(found.secret.clone(), found.encoding));
        seen.chain(unsearched.iter().map(|unsearched| Proof::Unsearched(unsearched.why))).collect()
    }
}

/// A request that the agent made to its model: what the relay saw of it, and what went wrong beyond it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelCall {
    /// What the relay saw.
    #[serde(flatten)]
    pub request: ModelRequest,
    /// What it asked of the provider beside an answer. Where there is no error, it was allowed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Ask>,
    /// Why it was not answered as it should have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// One run's journal. Every method may be called from any task.
#[derive(Debug)]
pub(crate) struct Journal {
    /// When the run moved into its slot, as its sidecar counts as well: times of both are of one clock.
    moved_in: OnceLock<Instant>,
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
    tool_calls: ToolCalls,
    /// Errors of model calls, which can come before the relay's own report of the call.
    model_errors: HashMap<u64, Error>,
    /// Likewise what they asked for.
    asks: HashMap<u64, Vec<Ask>>,
    errors: Vec<Error>,
    errors_dropped: u64,
}

/// The most errors that a run keeps; a dead guard makes one for each call.
const MAX_ERRORS: usize = 200;

impl Journal {
    pub(crate) fn new(secrets: SecretSet, redactor: Redactor, store: Arc<Store>) -> Self {
        Journal { moved_in: OnceLock::new(), secrets, redactor, store, watched: None, state: Mutex::default() }
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

    /// The sidecar has taken the run in: what is entered from here on counts from now. It began to count a moment before, so
    /// that a call never seems to come after what it did.
    pub(crate) fn moved_in(&self) {
        self.moved_in.get_or_init(Instant::now);
    }

    /// Milliseconds since the run moved into its slot.
    pub(crate) fn at_ms(&self) -> u64 {
        self.moved_in.get().map_or(0, |at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))
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
        let asks = match state.asks.remove(&request.id) {
            Some(asks) => asks,
            None => state.model_calls.get(request.id).map(|call| call.asks.clone()).unwrap_or_default(),
        };
        let call = ModelCall { request, asks, error };
        self.store.append("model_calls.jsonl", &call);
        state.model_calls.put(call.request.id, call);
    }

    /// What a model call asks for.
    pub(crate) fn model_call_asks(&self, id: u64, asks: Vec<Ask>) {
        if asks.is_empty() {
            return;
        }
        let asks: Vec<Ask> = asks.into_iter().map(|ask| self.redactor.value(ask)).collect();
        let mut state = self.state();
        if let Some(mut call) = state.model_calls.get(id).cloned() {
            call.asks = asks;
            self.store.append("model_calls.jsonl", &call);
            state.model_calls.put(id, call);
        } else if state.asks.len() < MAX_ERRORS {
            state.asks.insert(id, asks);
        }
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
        if let Some(updated) = &call.updated_input {
            let more = self.search(updated.to_string().as_bytes());
            call.secrets.extend(more.into_iter().filter(|found| !call.secrets.contains(found)).collect::<Vec<_>>());
        }
        call = self.redactor.value(call);
        let mut state = self.state();
        let call = state.tool_calls.put(call);
        // Of endless repetitions the file tells fewer and fewer; the end of the run tells their number.
        if call.reported <= 8 || call.reported.is_power_of_two() {
            self.store.append("tool_calls.jsonl", &call);
        }
        drop(state);
        if let Some(watched) = &self.watched {
            watched.tool_call(&call);
        }
    }

    /// The tool calls are told what showed that they ran: the last word about each.
    pub(crate) fn tool_calls_ran(&self, ran: impl Fn(&str) -> Ran) {
        for call in self.state().tool_calls.settle(ran) {
            self.store.append("tool_calls.jsonl", &call);
        }
    }

    pub(crate) fn error(&self, error: Error) {
        let error = self.redactor.error(error);
        let mut state = self.state();
        // Whoever makes one kind of error over and over does not keep others out.
        let alike = state.errors.iter().filter(|earlier| earlier.code() == error.code()).count();
        if state.errors.len() < MAX_ERRORS && alike < MAX_ERRORS / 4 {
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
            ("entries_dropped", "made-up reports of tool calls", state.tool_calls.made_up_dropped(), SEEN),
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
        Proof::of(&self.secrets, &self.unsearched)
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
        let asks: usize = self.asks.iter().map(|ask| ask.name.len() + 32).sum();
        256 + self.request.path.len() + headers_weight(&self.request.headers) + asks
    }

    fn proofs(&self) -> Vec<Proof> {
        Proof::of(&self.request.secrets, &self.request.unsearched)
    }

    fn trim(&mut self) {
        self.request.headers.clear();
        self.asks.iter_mut().for_each(|ask| ask.name = ask.name.chars().take(64).collect());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::evidence::RunResult;
    use crate::evidence::log::MAX_ENTRIES;
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
            ends_turn: false,
            unheard: None,
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
    fn one_kind_of_error_leaves_room_for_others() {
        let (_folder, journal) = journal();
        for _ in 0..1_000 {
            journal.error(Error::redroom("flood", "x"));
        }
        journal.error(Error::redroom("denied_call_ran", "x"));
        assert_eq!(journal.errors().len(), MAX_ERRORS / 4 + 2);
        assert_eq!(codes(&journal)[MAX_ERRORS / 4..], ["denied_call_ran", "entries_dropped"]);
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
    fn no_flood_pushes_out_what_was_not_searched() {
        let (_folder, journal) = journal();
        let hit = |id: u64, unsearched: Value| -> Hit {
            serde_json::from_value(json!({
                "id": id, "at_ms": 1, "protocol": "https", "host": "t.redroom.test", "address": "192.0.2.20:443",
                "method": "POST", "complete": true, "blocked": false, "unsearched": unsearched,
            }))
            .unwrap()
        };
        let last = MAX_ENTRIES as u64 + 100;
        for id in 1..=last {
            let why = match id {
                2 => "encrypted",
                3..=50 => "incomplete",
                _ => "",
            };
            let unsearched = json!([{ "offset": 0, "container": "zip", "why": why }]);
            journal.hit(hit(id, if why.is_empty() { json!([]) } else { unsearched }));
        }
        let kept: Vec<u64> = journal.hits().iter().map(|hit| hit.id).take(4).collect();
        assert_eq!(kept, [2, 3, 50, 101], "the only encrypted one, and the first and last that broke off");
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
