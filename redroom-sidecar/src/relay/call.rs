//! A model call, from the agent's request to the end of its answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Either};
use hyper::body::{Body, Incoming};
use tokio::sync::oneshot;

use super::headers::{downward, upward};
use crate::conversation::{Answer, Fragmented, Party, Reading, json};
use crate::intake::{Intake, note};
use crate::link::MODEL;
use crate::pipe::{Feed, Piped, pipe};
use crate::search::note_unsearched;
use crate::web::{octets, search_head};
use crate::wire::{ModelRequest, ModelTarget, Part, Refusal};

/// The most that a head may weigh that is passed on: the link would not carry much more.
const HEAD: usize = 128 * 1024;

/// What a header weighs beside its name and value, its prefix on the link included.
const HEADER_EXTRA: usize = 42;

/// Reports a request, passes it on or refuses it, reports how it ended.
pub(super) async fn answer(party: Arc<Party>, request: Request<Incoming>, answer: oneshot::Sender<Answer>) {
    let begun = Instant::now();
    let mut call = begin(&party, &request);
    let way = way(&party, &request, call.id);
    call.refusal = way.as_ref().err().copied();
    call.complete = request.body().is_end_stream();
    party.slot.reports.model_request(&party.tenant, &call).await;

    let (feed, piped) = pipe();
    let upward = read(&party, request.into_body(), feed, &mut call);
    match way {
        Err(refusal) => {
            drop(piped);
            upward.await;
            call.status = Some(refused(refusal).status().as_u16());
            party.slot.reports.model_request(&party.tenant, &call).await;
            let _ = answer.send(refused(refusal));
        }
        Ok(headers) => {
            let (progress, ()) = tokio::join!(exchange(&party, headers, piped, answer), upward);
            call.status = progress.status;
            call.response_bytes = progress.bytes;
        }
    }
    call.duration_ms = Some(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    party.slot.reports.model_request(&party.tenant, &call).await;
}

/// What the head tells.
fn begin(party: &Party, request: &Request<Incoming>) -> ModelRequest {
    let tenant = &party.tenant;
    let path = match (request.extensions().get::<Fragmented>(), request.uri().path_and_query()) {
        (Some(Fragmented(target)), _) => target.clone(),
        (None, Some(path)) => path.to_string(),
        (None, None) => request.uri().to_string(),
    };
    let target = ModelTarget { method: request.method().to_string(), path };
    let mut call = ModelRequest::new(tenant.next_call(), tenant.age_ms(), target);
    call.headers = octets(request.headers());
    call.unsearched = search_head(tenant.secrets(), &call.method, &call.path, &call.headers, &mut call.secrets);
    call
}

/// The head to pass a request on with, or why it goes nowhere.
fn way(party: &Party, request: &Request<Incoming>, call: u64) -> Result<HeaderMap, Refusal> {
    let generation = party.tenant.generation().ok_or(Refusal::NoRun)?;
    let path = path(request).ok_or(Refusal::InvalidTarget)?;
    let uri = request.uri();
    if !party.tenant.allows_model(request.method().as_str(), uri.path()) {
        return Err(Refusal::PathNotAllowed);
    }
    if weight(request.headers()) + path.len() > HEAD {
        return Err(Refusal::HeadTooLarge);
    }
    upward(request, path, generation, call).ok_or(Refusal::InvalidTarget)
}

/// The path that a request is aimed at. One that names another place beside it, or several, has none: whoever reads it next
/// may choose the other.
pub(crate) fn path(request: &Request<Incoming>) -> Option<&str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let uri = request.uri();
    let is_bare = match (request.version(), uri.authority()) {
        // Here the host is a part of every target.
        (Version::HTTP_2, authority) => {
            let same = |host: &HeaderValue| authority.is_some_and(|authority| authority.as_str() == host);
            uri.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
                && authority.is_none_or(|authority| !authority.as_str().contains('@'))
                && host.is_none_or(same)
        }
        (_, authority) => authority.is_none(),
    };
    let is_fragmented = request.extensions().get::<Fragmented>().is_some();
    if !is_bare || second.is_some() || is_fragmented || request.method() == Method::CONNECT {
        return None;
    }
    uri.path_and_query().map(|path| path.as_str()).filter(|path| path.starts_with('/'))
}

/// What headers weigh on the link.
fn weight(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_EXTRA).sum()
}

fn refused(refusal: Refusal) -> Answer {
    let (status, code, message) = match refusal {
        Refusal::PathNotAllowed => {
            (StatusCode::FORBIDDEN, "path_not_allowed", "the model relay passes on model requests only")
        }
        Refusal::InvalidTarget => (StatusCode::BAD_REQUEST, "invalid_target", "the request's target is no path"),
        Refusal::HeadTooLarge => {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "the request's head is too large")
        }
        Refusal::NoRun => (StatusCode::FORBIDDEN, "no_run", "no run is in this slot"),
    };
    json(status, &failure(code, message))
}

/// An error in the form that model clients read.
fn failure(code: &str, message: &str) -> serde_json::Value {
    serde_json::json!({ "type": "error", "error": { "type": code, "code": code, "message": message } })
}

/// Reads the request whole, passing on what is wanted. The answer may come before its end.
async fn read(party: &Party, body: Incoming, feed: Feed, call: &mut ModelRequest) {
    let mut intake = Intake::keeping_nothing(party.tenant.secrets());
    let mut reading = Reading::new(party, body);
    while let Some(data) = reading.next().await {
        intake.feed(&data);
        feed.send(data).await;
    }
    call.request_bytes = intake.bytes();
    let closed = intake.closed(&call.headers);
    let searched = intake.finish();
    note(&mut call.secrets, Part::Body, &searched.matches);
    note_unsearched(&mut call.unsearched, searched.unsearched.into_iter().chain(closed));
    if let Some(trailers) = reading.trailers() {
        call.complete = true;
        let trailers = octets(&trailers);
        let unsearched = search_head(party.tenant.secrets(), "", "", &trailers, &mut call.secrets);
        note_unsearched(&mut call.unsearched, unsearched);
        feed.end().await;
    }
    party.slot.reports.model_request(&party.tenant, call).await;
}

/// How far an answer came.
#[derive(Default)]
struct Progress {
    status: Option<u16>,
    bytes: u64,
}

/// Asks the harness and streams the answer. That the agent has left, before or in the answer, ends the request, for
/// whoever is asked, too.
async fn exchange(party: &Party, headers: HeaderMap, body: Piped, mut answer: oneshot::Sender<Answer>) -> Progress {
    let mut progress = Progress::default();
    let _place = tokio::select! {
        place = party.slot.model_requests.acquire() => place,
        () = answer.closed() => return progress,
    };
    let asked = party.slot.link.post(MODEL, headers, Either::Right(Either::Right(body)));
    let response = tokio::select! {
        response = asked => response,
        () = answer.closed() => return progress,
    };
    let Ok(response) = response else {
        let error = failure("model_unreachable", "the model could not be asked");
        if answer.send(json(StatusCode::BAD_GATEWAY, &error)).is_ok() {
            progress.status = Some(StatusCode::BAD_GATEWAY.as_u16());
        }
        return progress;
    };
    progress.status = Some(response.status().as_u16());
    let (feed, piped) = pipe();
    let mut head = Response::new(Either::Right(piped));
    *head.status_mut() = response.status();
    *head.headers_mut() = downward(response.headers());
    if answer.send(head).is_ok() {
        stream(response.into_body(), feed, &mut progress.bytes).await;
    }
    progress
}

async fn stream(mut body: Incoming, feed: Feed, bytes: &mut u64) {
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = feed.abandoned() => return,
        };
        match frame {
            None => return feed.end().await,
            Some(Err(_)) => return,
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_else(|_| Bytes::new());
                let length = data.len() as u64;
                if !data.is_empty() && !feed.send(data).await {
                    return;
                }
                *bytes += length;
            }
        }
    }
}
