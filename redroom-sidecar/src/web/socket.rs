//! WebSockets: accepted where somebody answers, heard to their end, never spoken in but for what keeps them open. All that a
//! client says in one is the body of the request that opened it, unmasked.

pub(crate) mod frames;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::conversation::{Answer, Party};
use crate::intake::{Intake, note, note_searched};
use crate::search::{Container, Unsearched, Why, note_unsearched};
use crate::wire::{Hit, Part};
use frames::{Frames, Kind, Reply};

/// What a server adds to a client's key, by the standard.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer that opens a socket, if a request asks for one.
pub(super) fn accept(head: &Parts) -> Option<Answer> {
    let has = |name: HeaderName, wanted: &str| {
        let values = head.headers.get_all(name).into_iter();
        let mut tokens = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
        tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
    };
    let asked = head.method == Method::GET
        && head.version == Version::HTTP_11
        && has(UPGRADE, "websocket")
        && has(CONNECTION, "upgrade");
    let key = head.headers.get(SEC_WEBSOCKET_KEY).filter(|_| asked)?;
    let hash = Sha1::new().chain_update(key.as_bytes()).chain_update(MAGIC).finalize();
    let mut answer = Response::new(Either::Left(Full::new(Bytes::new())));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&STANDARD.encode(hash)).ok()?);
    // Some clients leave if none of theirs is taken.
    let offers = head.headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|offers| offers.to_str().ok());
    if let Some(Ok(first)) = offers.and_then(|offers| offers.split(',').next()).map(|first| first.trim().parse()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, first);
    }
    Some(answer)
}

/// Hears a socket to its end. What was found is told as it is found.
pub(super) async fn hear(party: &Party, upgrade: OnUpgrade, silence: Duration, hit: &mut Hit) {
    let tenant = &party.tenant;
    let mut stream = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(_) => return hit.fault = Some("the client left before the websocket was open".to_owned()),
    };
    let mut intake = Intake::new(tenant.secrets());
    let mut control = Intake::keeping_nothing(tenant.secrets());
    let mut frames = Frames::default();
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = tokio::select! {
            read = timeout(silence, stream.read(&mut buffer)) => read,
            () = tenant.cut.cancelled() => {
                party.note_cut();
                hit.fault = Some("the websocket was cut at the end of its run".to_owned());
                break;
            }
        };
        let length = match read {
            Ok(Ok(length)) if length > 0 => length,
            Ok(_) => break,
            Err(_) => {
                hit.fault = Some("the client fell silent".to_owned());
                break;
            }
        };
        let replies = frames.read(&mut buffer[..length], |kind, content| match kind {
            Kind::Message => intake.feed(content),
            Kind::Control => control.feed(content),
        });
        let in_control = note(&mut hit.secrets, Part::Body, control.matches());
        if note(&mut hit.secrets, Part::Body, intake.matches()) || in_control {
            intake.tell(hit);
            party.slot.reports.hit(tenant, hit).await;
        }
        for reply in replies {
            let reply = match reply {
                Reply::Pong(content) => [&[0x8a, content.len() as u8], &content[..]].concat(),
                Reply::Close => vec![0x88, 0],
            };
            // A client that does not read is heard all the same.
            let _ = timeout(silence, stream.write_all(&reply)).await;
        }
    }
    intake.fill(hit);
    note_searched(hit, Part::Body, control.finish());
    if frames.is_extended() {
        note_unsearched(&mut hit.unsearched, [Unsearched::whole(Container::ContentCoding, Why::Unsupported)]);
    }
    hit.complete = true;
}
