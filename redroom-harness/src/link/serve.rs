//! The HTTP/2 server behind a link: cuts the session's stream into reports, hands model and hook requests to the tenant.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use redroom_sidecar::wire::frame::{Decoder, REPORT_LIMIT};
use redroom_sidecar::wire::{
    CALL, GENERATION, Generation, HOOK_PAYLOAD_LIMIT, MODEL_HEADERS, Report, WITHHELD_HEADERS,
};
use tokio::sync::{Mutex, mpsc};

use super::Shared;
use crate::backend::Duplex;
use crate::error::chain;
use crate::model::{Body, ModelCall};

/// Serves one sidecar until the stream is lost, and says so to everybody who waits.
pub(super) async fn serve(stream: Box<dyn Duplex>, shared: Arc<Shared>, commands: mpsc::Receiver<Bytes>) {
    let commands = Arc::new(Mutex::new(Some(commands)));
    let service = service_fn({
        let shared = shared.clone();
        move |request| answer(request, shared.clone(), commands.clone())
    });
    let served = redroom_sidecar::harness_http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(10)))
        .keep_alive_timeout(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), service)
        .await;
    shared.lose(match served {
        Ok(()) => "it ended".to_owned(),
        Err(error) => chain(&error),
    });
}

type Commands = Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>;

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    commands: Commands,
) -> Result<Response<Body>, Infallible> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::POST, "/session") => session(request, shared, commands).await,
        (&Method::POST, "/model") => model(request, shared).await,
        (&Method::POST, "/hook") => hook(request, shared).await,
        _ => status(StatusCode::NOT_FOUND),
    })
}

async fn session(request: Request<Incoming>, shared: Arc<Shared>, commands: Commands) -> Response<Body> {
    let Some(queue) = commands.lock().await.take() else {
        shared.lose("it opened a second session");
        return status(StatusCode::CONFLICT);
    };
    tokio::spawn(async move {
        let why = read_reports(request.into_body(), &shared).await.unwrap_or_else(|why| why);
        shared.lose(why);
    });
    let down = futures_util::stream::unfold(queue, |mut queue| async move {
        queue.recv().await.map(|frame| (Ok(Frame::data(frame)), queue))
    });
    Response::new(BodyExt::boxed_unsync(StreamBody::new(down)))
}

/// Reads reports to the end of the session; gives why it ended.
async fn read_reports(body: Incoming, shared: &Shared) -> Result<String, String> {
    let mut reports = Reports::default();
    let mut frames = BodyStream::new(body);
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|error| chain(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        reports.feed(&data, shared)?;
    }
    Ok("it ended its session".to_owned())
}

/// Cuts what a sidecar says into reports.
pub(crate) struct Reports(Decoder);

impl Default for Reports {
    fn default() -> Self {
        Reports(Decoder::new(REPORT_LIMIT))
    }
}

impl Reports {
    /// Takes what has come. `Err`: it breaks the protocol, and the link with it.
    pub(crate) fn feed(&mut self, data: &[u8], shared: &Shared) -> Result<(), String> {
        self.0.push(data);
        while let Some(report) = self.0.next_frame::<Report>().map_err(|error| chain(&error))? {
            shared.report(report)?;
        }
        Ok(())
    }
}

async fn model(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(tenant) = shared.tenant(generation(&parts.headers)) else { return status(StatusCode::FORBIDDEN) };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let number = text(CALL).and_then(|number| number.parse().ok());
    let method = text("redroom-method").and_then(|method| Method::from_bytes(method.as_bytes()).ok());
    let (Some(number), Some(method), Some(target)) = (number, method, text("redroom-target")) else {
        return status(StatusCode::BAD_REQUEST);
    };
    let call = ModelCall {
        run: tenant.run().to_owned(),
        method,
        target,
        headers: unwrapped(&parts.headers, MODEL_HEADERS),
        withheld: unwrapped(&parts.headers, WITHHELD_HEADERS),
        body: BodyExt::boxed_unsync(body.map_err(|error| {
            crate::Error::new(
                crate::By::Sidecar,
                "sidecar_lost",
                format!("a model request broke off: {}", chain(&error)),
            )
        })),
    };
    let (mut head, body) = tenant.model(number, call).await.into_parts();
    head.headers = wrapped(&head.headers);
    Response::from_parts(head, body)
}

async fn hook(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let Some(tenant) = shared.tenant(generation(request.headers())) else { return status(StatusCode::FORBIDDEN) };
    // One byte more than allowed still arrives: the guard's side then says that it was too large.
    match Limited::new(request.into_body(), HOOK_PAYLOAD_LIMIT + 1).collect().await {
        Ok(payload) => whole(tenant.hook(payload.to_bytes()).await),
        Err(_) => status(StatusCode::BAD_REQUEST),
    }
}

fn generation(headers: &HeaderMap) -> Option<Generation> {
    headers.get(GENERATION)?.to_str().ok()?.parse().ok().map(Generation)
}

/// The agent's headers out of those of a `/model` request.
fn unwrapped(headers: &HeaderMap, prefix: &str) -> HeaderMap {
    let mut inner = HeaderMap::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(prefix)
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
        {
            inner.append(name, value.clone());
        }
    }
    inner
}

/// The answer's headers as those of a `/model` answer.
fn wrapped(headers: &HeaderMap) -> HeaderMap {
    let mut outer = HeaderMap::new();
    for (name, value) in headers {
        if let Ok(name) = HeaderName::from_bytes(format!("{MODEL_HEADERS}{name}").as_bytes()) {
            outer.append(name, HeaderValue::clone(value));
        }
    }
    outer
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = whole(Bytes::new());
    *response.status_mut() = status;
    response
}

fn whole(bytes: Bytes) -> Response<Body> {
    Response::new(BodyExt::boxed_unsync(Full::new(bytes).map_err(|never| match never {})))
}
