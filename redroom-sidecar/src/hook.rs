//! The tool hook: the harness is asked about every tool call, and its answer passed on unchanged. Whatever goes wrong is
//! a denial. What the agent tells after a call is passed on as well, and its answer never changes anything.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::conversation::{self, Answer, Manner, Party, Reading, json};
use crate::door::Connection;
use crate::link::HOOK;
use crate::slot::Slot;
use crate::web::{self, Ports};
use crate::wire::{GENERATION, Generation, HOOK_PAYLOAD_LIMIT};
use crate::witness::{Pulse, Witness};

const PATH: &str = "/hook";
/// Where the agent tells that a tool has run.
const RAN: &str = "/hook/ran";

/// How long a payload may take to arrive, and the harness to decide about it: more than a guard has, less than a hook
/// waits.
const PAYLOAD_PATIENCE: Duration = Duration::from_secs(10);
const DECISION_PATIENCE: Duration = Duration::from_secs(28);

/// The most that an answer may weigh.
const ANSWER_LIMIT: usize = 4 * 1024 * 1024;

const MANNER: Manner = Manner {
    http2: false,
    half_close: true,
    head_patience: Duration::from_secs(15 * 60),
    silence: None,
    any_protocol: false,
};

/// Serves one connection.
pub(crate) async fn serve(slot: Arc<Slot>, connection: Connection) {
    let Connection { stream, meant, tenant, place: _place } = connection;
    let _ = stream.set_nodelay(true);
    let witness = Witness::new(stream, Pulse::new());
    let party = Party::new(slot, tenant, meant, None, witness.memory().clone());
    conversation::hold(&party, witness, MANNER, answer).await;
}

/// Asks about a tool call. A request that is none is a hit like any other.
async fn answer(party: Arc<Party>, request: Request<Incoming>, mut answer: oneshot::Sender<Answer>) {
    let path = request.uri().path();
    if request.method() != Method::POST || ![PATH, RAN].contains(&path) {
        return web::answer(Ports::Web, party, request, answer).await;
    }
    let has_run = path == RAN;
    let told = async { if has_run { note(&party, request).await } else { decide(&party, request).await } };
    let told = tokio::select! {
        told = told => told,
        () = answer.closed() => return,
    };
    let _ = answer.send(told);
}

/// Passes on that a tool has run, if it is that and of a size to be passed on: what came of a tool can be large, and comes to the
/// model in any case.
async fn note(party: &Party, request: Request<Incoming>) -> Answer {
    #[derive(Deserialize)]
    struct Event {
        hook_event_name: String,
    }
    let generation = party.tenant.generation();
    if let Ok(Some(payload)) = timeout(PAYLOAD_PATIENCE, read_to_the_end(party, request.into_body())).await
        && let Some(generation) = generation
        && let Ok(Event { hook_event_name }) = serde_json::from_slice(&payload)
        && ["PostToolUse", "PostToolUseFailure"].contains(&&*hook_event_name)
    {
        let _ = timeout(DECISION_PATIENCE, ask(party, generation, payload)).await;
    }
    json(StatusCode::OK, &serde_json::json!({}))
}

/// The payload, unless it is too large. An agent that is cut off in the middle of it would take that for a failure.
async fn read_to_the_end(party: &Party, body: Incoming) -> Option<Bytes> {
    let mut payload = BytesMut::new();
    let mut reading = Reading::new(party, body);
    while let Some(data) = reading.next().await {
        let room = (HOOK_PAYLOAD_LIMIT + 1).saturating_sub(payload.len());
        payload.extend_from_slice(&data[..data.len().min(room)]);
    }
    reading.trailers()?;
    (payload.len() <= HOOK_PAYLOAD_LIMIT).then(|| payload.freeze())
}

async fn decide(party: &Party, request: Request<Incoming>) -> Answer {
    let Some(generation) = party.tenant.generation() else { return denial(b"", "no run is in this slot") };
    let payload = match timeout(PAYLOAD_PATIENCE, read(party, request.into_body())).await {
        Ok(Some(payload)) => payload,
        Ok(None) | Err(_) => return denial(b"", "the tool hook's payload did not arrive"),
    };
    match timeout(DECISION_PATIENCE, ask(party, generation, payload.clone())).await {
        Ok(Some(decision)) => decision,
        Ok(None) => denial(&payload, "the tool call could not be checked"),
        Err(_) => denial(&payload, "the check of the tool call took too long"),
    }
}

/// The payload, and one byte more than the limit if it is over: the harness sees that it is.
async fn read(party: &Party, body: Incoming) -> Option<Bytes> {
    const MOST: usize = HOOK_PAYLOAD_LIMIT + 1;
    let mut payload = BytesMut::new();
    let mut reading = Reading::new(party, body);
    while let Some(data) = reading.next().await {
        payload.extend_from_slice(&data[..data.len().min(MOST - payload.len())]);
        if payload.len() == MOST {
            return Some(payload.freeze());
        }
    }
    reading.trailers().map(|_| payload.freeze())
}

async fn ask(party: &Party, generation: Generation, payload: Bytes) -> Option<Answer> {
    let mut headers = HeaderMap::new();
    headers.insert(GENERATION, generation.0.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let payload = Either::Right(Either::Left(Full::new(payload)));
    let (head, body) = party.slot.link.post(HOOK, headers, payload).await.ok()?.into_parts();
    let body = Limited::new(body, ANSWER_LIMIT).collect().await.ok()?.to_bytes();
    let mut decision = Response::new(Either::Left(Full::new(body)));
    *decision.status_mut() = head.status;
    if let Some(kind) = head.headers.get(CONTENT_TYPE) {
        decision.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    Some(decision)
}

/// A denial in the form that the agent understands, for a tool call or another event.
fn denial(payload: &[u8], reason: &str) -> Answer {
    #[derive(Deserialize)]
    struct Event {
        hook_event_name: String,
    }
    const TOOL_CALL: &str = "PreToolUse";
    let event =
        serde_json::from_slice(payload).map_or_else(|_| TOOL_CALL.to_owned(), |event: Event| event.hook_event_name);
    let reason = format!("redroom: {reason}");
    let answer = if event == TOOL_CALL {
        serde_json::json!({ "hookSpecificOutput": {
            "hookEventName": TOOL_CALL, "permissionDecision": "deny", "permissionDecisionReason": reason,
        }})
    } else {
        serde_json::json!({ "decision": "block", "reason": reason })
    };
    json(StatusCode::OK, &answer)
}
