//! A visit: one request to the fake web, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use tokio::sync::oneshot;

use super::Ports;
use super::host::Meant;
use super::socket;
use crate::conversation::{Answer, Fragmented, Party, Reading, plain};
use crate::dns::elsewhere;
use crate::domain::labels;
use crate::intake::{Intake, note, note_address, note_searched};
use crate::search::{SecretSet, Unsearched, note_unsearched};
use crate::tenant::Tenant;
use crate::wire::{Found, Hit, Octets, Part, Protocol};

/// Reports a request, reads it whole, answers it.
pub(crate) async fn answer(
    ports: Ports,
    party: Arc<Party>,
    mut request: Request<Incoming>,
    answer: oneshot::Sender<Answer>,
) {
    let Party { slot, tenant, .. } = &*party;
    let places = match ports {
        Ports::Web => &slot.requests,
        Ports::Other => &slot.other_requests,
    };
    let Ok(_place) = places.acquire().await else { return };
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let meant = Meant::of(&head, &party);
    let mut hit = begin(&party, &head, &meant);
    let accepted = socket::accept(&head).filter(|_| is_open(ports, tenant, &head, &meant));
    hit.complete = body.is_end_stream() && accepted.is_none();
    slot.reports.hit(tenant, &hit).await;

    if !body.is_end_stream() {
        read(&party, body, &mut hit).await;
    }
    if let Some(accepted) = accepted.filter(|_| hit.fault.is_none()) {
        party.give_away();
        hit.complete = false;
        hit.status = Some(accepted.status().as_u16());
        slot.reports.hit(tenant, &hit).await;
        let _ = answer.send(accepted);
        socket::hear(&party, upgrade, ports.silence(), &mut hit).await;
        slot.reports.hit(tenant, &hit).await;
    } else if hit.complete {
        let chosen = choose(ports, tenant, &head, &meant);
        hit.status = Some(chosen.status().as_u16());
        slot.reports.hit(tenant, &hit).await;
        let _ = answer.send(chosen);
    } else {
        slot.reports.hit(tenant, &hit).await;
    }
    party.tell(&hit);
}

/// What the head tells.
fn begin(party: &Party, head: &Parts, meant: &Meant) -> Hit {
    let Party { tenant, .. } = party;
    let protocol = if party.tls { Protocol::Https } else { Protocol::Http };
    let mut hit =
        Hit::new(tenant.next_hit(), tenant.age_ms(), protocol, meant.host.clone(), party.meant, meant.outside);
    hit.server_name = party.server_name.clone();
    hit.method = head.method.to_string();
    hit.path = match head.extensions.get::<Fragmented>() {
        Some(Fragmented(target)) => target.clone(),
        None if says_more_than_a_place(&head.uri) => head.uri.to_string(),
        None => head.uri.path_and_query().map_or_else(String::new, |path| path.to_string()),
    };
    hit.headers = octets(&head.headers);
    let secrets = tenant.secrets();
    for name in [Some(&meant.host), party.server_name.as_ref()].into_iter().flatten() {
        note_searched(&mut hit, Part::Host, secrets.search_name(&labels(name)));
    }
    note_address(&mut hit.secrets, secrets, party.meant.ip());
    let unsearched = search_head(secrets, &hit.method, &hit.path, &hit.headers, &mut hit.secrets);
    note_unsearched(&mut hit.unsearched, unsearched);
    let carried = elsewhere::search_target(secrets, &hit.path);
    note_searched(&mut hit, Part::Target, carried);
    hit
}

/// Whether a target has parts that neither host nor path show: a user in front of its host, a scheme of its own.
fn says_more_than_a_place(target: &Uri) -> bool {
    target.authority().is_some_and(|authority| authority.as_str().contains('@'))
        || target.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS)
}

/// Searches what comes before a body, or after it. Gives what was not searched, each kind once.
pub(crate) fn search_head(
    secrets: &SecretSet,
    method: &str,
    path: &str,
    headers: &[(String, Octets)],
    found: &mut Vec<Found>,
) -> Vec<Unsearched> {
    let target = (Part::Target, format!("{method} {path}").into_bytes());
    let headers =
        headers.iter().map(|(name, value)| (Part::Headers, [name.as_bytes(), b": ", value.as_bytes()].concat()));
    let mut unsearched: Vec<Unsearched> = Vec::new();
    for (part, text) in std::iter::once(target).chain(headers) {
        let searched = secrets.search_whole(&text);
        note(found, part, &searched.matches);
        note_unsearched(&mut unsearched, searched.unsearched);
    }
    unsearched
}

/// Headers as they are reported.
pub(crate) fn octets(headers: &HeaderMap) -> Vec<(String, Octets)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec().into())).collect()
}

/// Reads and searches the body. What was found is told as it is found: the rest may take long, or never come.
async fn read(party: &Party, body: Incoming, hit: &mut Hit) {
    let Party { slot, tenant, .. } = party;
    let mut intake = Intake::new(tenant.secrets());
    let mut reading = Reading::new(party, body);
    while let Some(data) = reading.next().await {
        intake.feed(&data);
        if note(&mut hit.secrets, Part::Body, intake.matches()) {
            intake.tell(hit);
            slot.reports.hit(tenant, hit).await;
        }
    }
    let closed = intake.closed(&hit.headers);
    intake.fill(hit);
    note_unsearched(&mut hit.unsearched, closed);
    let message = elsewhere::search_body(tenant.secrets(), &hit.headers, hit.body.as_bytes());
    note_searched(hit, Part::Body, message);
    match reading.trailers() {
        Some(trailers) => {
            let trailers = octets(&trailers);
            let unsearched = search_head(tenant.secrets(), "", "", &trailers, &mut hit.secrets);
            note_unsearched(&mut hit.unsearched, unsearched);
            hit.headers.extend(trailers);
            hit.complete = true;
        }
        None => hit.fault = Some("the request was cut off".to_owned()),
    }
}

/// Whether another protocol may be spoken here: where somebody answers, and no page is planted.
fn is_open(ports: Ports, tenant: &Tenant, head: &Parts, meant: &Meant) -> bool {
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let planted = ports == Ports::Web && tenant.page(&meant.host, path).is_some();
    !planted && (!meant.outside || tenant.catches_all())
}

/// The answer, by what was asked alone. An origin has a port in it: pages are planted on the web's own.
fn choose(ports: Ports, tenant: &Tenant, head: &Parts, meant: &Meant) -> Answer {
    let read = head.method == Method::GET || head.method == Method::HEAD;
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let page = if read && ports == Ports::Web { tenant.page(&meant.host, path) } else { None };
    match page {
        _ if meant.outside && !tenant.catches_all() => plain(StatusCode::NOT_FOUND, "not found"),
        _ if head.method == Method::CONNECT => plain(StatusCode::METHOD_NOT_ALLOWED, "no proxy"),
        None if read => plain(StatusCode::NOT_FOUND, "not found"),
        None => plain(StatusCode::OK, "ok"),
        Some(page) => {
            let body = if head.method == Method::HEAD { Bytes::new() } else { page.body.clone() };
            let mut answer = Response::new(Either::Left(Full::new(body)));
            *answer.status_mut() = page.status;
            answer.headers_mut().insert(CONTENT_TYPE, page.content_type.clone());
            if head.method == Method::HEAD {
                answer.headers_mut().insert(CONTENT_LENGTH, page.body.len().into());
            }
            answer
        }
    }
}
