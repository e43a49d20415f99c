//! The agent's hooks: what is posted is passed to the harness, and its answer passed back, both unchanged. It fails closed.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::listen::Connection;
use crate::tenancy::Tenancy;
use crate::uplink::Uplink;
use crate::wire::HOOK_PAYLOAD_LIMIT;

/// The only path that is answered.
const PATH: &str = "/hook";

/// How long the harness may take: longer than it gives a guard, shorter than the agent's own limit.
const PATIENCE: Duration = Duration::from_secs(28);

/// The most that an answer may weigh, in bytes.
const ANSWER_LIMIT: usize = 2 * 1024 * 1024;

/// Serves a connection to the hook.
pub(crate) async fn serve(connection: Connection, uplink: Uplink) {
    let Connection { stream, tenancy, permit, .. } = connection;
    let service = service_fn(move |request| {
        let (tenancy, uplink) = (tenancy.clone(), uplink.clone());
        async move { Ok::<_, Infallible>(answer(request, &tenancy, &uplink).await) }
    });
    // A client that breaks HTTP has asked nothing; there is nothing to report.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop(permit);
}

async fn answer(request: Request<Incoming>, tenancy: &Tenancy, uplink: &Uplink) -> Response<Full<Bytes>> {
    if request.method() != Method::POST || request.uri().path() != PATH {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let ruling = tokio::time::timeout(PATIENCE, ask(request.into_body(), tenancy, uplink)).await;
    let body = match ruling {
        Ok(Ok(answer)) => answer,
        Ok(Err(why)) => denial(why),
        Err(_) => denial("redroom did not answer in time"),
    };
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn ask(body: Incoming, tenancy: &Tenancy, uplink: &Uplink) -> Result<Bytes, &'static str> {
    let generation = tenancy.generation().ok_or("no run lives here")?;
    let payload = first(body).await?;
    let request = Request::new(Full::new(payload).map_err(|never| match never {}).boxed_unsync());
    let response = uplink.ask("/hook", generation, request).await.map_err(|_| "redroom cannot be asked")?;
    if !response.status().is_success() {
        return Err("redroom does not take the question");
    }
    let answer = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
    Ok(answer.map_err(|_| "redroom's answer broke off")?.to_bytes())
}

/// The payload, or as much of one that is too large as shows that it is.
async fn first(mut body: Incoming) -> Result<Bytes, &'static str> {
    let mut payload = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "the hook's payload broke off")?;
        let Some(data) = frame.data_ref() else { continue };
        let room = HOOK_PAYLOAD_LIMIT + 1 - payload.len();
        payload.extend_from_slice(&data[..data.len().min(room)]);
        if payload.len() > HOOK_PAYLOAD_LIMIT {
            break;
        }
    }
    Ok(payload.freeze())
}

/// A denial in the form that the agent's hooks understand.
fn denial(why: &str) -> Bytes {
    let answer = serde_json::json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": format!("redroom: {why}; the call is denied"),
        }
    });
    Bytes::from(answer.to_string())
}
