//! The model relay: the agent's model requests go up to the harness, answers come down as they stream.
//!
//! Only the endpoints that the agent needs are passed on, and never the agent's credentials. Everything is recorded and
//! searched whole, what is refused too.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::listen::Connection;
use crate::search::Scanner;
use crate::tenancy::{Tenancy, add};
use crate::uplink::{Body, BodyError, Uplink};
use crate::wire::{CALL, MODEL_HEADERS, ModelRequest, ModelTarget, Octets, Part, Refusal, Report};

/// Headers that belong to one connection, or that hold what the agent takes for its key.
const NOT_PASSED: [&str; 14] = [
    "authorization",
    "x-api-key",
    "cookie",
    "proxy-authorization",
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
];

/// Serves a connection to the relay.
pub(crate) async fn serve(connection: Connection, uplink: Uplink) {
    let Connection { stream, tenancy, permit, .. } = connection;
    let service = service_fn(move |request| {
        let (tenancy, uplink) = (tenancy.clone(), uplink.clone());
        async move { answer(request, tenancy, uplink).await }
    });
    // What is no HTTP never was a model request.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop(permit);
}

async fn answer(
    request: Request<Incoming>,
    tenancy: Arc<Tenancy>,
    uplink: Uplink,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let target = head.uri.to_string();
    let mut seen = ModelRequest::new(
        tenancy.next_model_request(),
        tenancy.at_ms(),
        ModelTarget { method: head.method.as_str().to_owned(), path: target.clone() },
    );
    seen.headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), Octets(value.as_bytes().to_vec())))
        .collect();
    tenancy.search(Part::Target, target.as_bytes(), &mut seen.secrets);
    tenancy.search_headers(&seen.headers, &mut seen.secrets);
    seen.refusal = if tenancy.generation().is_none() {
        Some(Refusal::NoRun)
    } else if head.uri.scheme().is_some() || head.uri.authority().is_some() || !target.starts_with('/') {
        Some(Refusal::InvalidTarget)
    } else if !tenancy.allows_model_request(&seen.method, &path) {
        Some(Refusal::PathNotAllowed)
    } else {
        None
    };
    let refusal = seen.refusal;
    let record = Record::new(seen, tenancy.clone(), uplink.clone());
    record.send().await;
    let body = Searched { body, scanner: Some(tenancy.secrets().scanner()), record: record.clone() };

    if let Some(refusal) = refusal {
        let mut body = body;
        while let Some(Ok(_)) = body.frame().await {}
        return Ok(record.refuse(refusal));
    }
    let Some(generation) = tenancy.generation() else { return Ok(record.refuse(Refusal::NoRun)) };
    let mut up = Request::new(body.boxed_unsync());
    *up.headers_mut() = passed(&head.headers);
    up.headers_mut().insert(CALL, HeaderValue::from(record.id()));
    for (name, value) in [("redroom-method", head.method.as_str()), ("redroom-target", target.as_str())] {
        if let Ok(value) = HeaderValue::from_str(value) {
            up.headers_mut().insert(name, value);
        }
    }
    let answered = uplink.ask("/model", generation, up).await;
    Ok(match answered {
        Ok(response) => {
            let (mut down, body) = response.into_parts();
            down.headers = unwrapped(&down.headers);
            down.version = http::Version::HTTP_11;
            record.with(|seen| seen.status = Some(down.status.as_u16()));
            Response::from_parts(down, Counted { body, record: record.closing() }.boxed_unsync())
        }
        Err(_) => record.respond(StatusCode::BAD_GATEWAY, "sidecar_lost", "redroom cannot be asked"),
    })
}

/// The agent's headers that go up, each under a name that cannot be taken for one of ours.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let mut up = HeaderMap::new();
    for (name, value) in headers {
        let kept = !NOT_PASSED.contains(&name.as_str()) && !named.iter().any(|own| own == name.as_str());
        if kept && let Ok(name) = HeaderName::from_bytes(format!("{MODEL_HEADERS}{name}").as_bytes()) {
            up.append(name, value.clone());
        }
    }
    up
}

/// The answer's headers as the upstream gave them.
fn unwrapped(headers: &HeaderMap) -> HeaderMap {
    let mut down = HeaderMap::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(MODEL_HEADERS)
            && !matches!(name, "connection" | "transfer-encoding" | "keep-alive" | "upgrade")
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
        {
            down.append(name, value.clone());
        }
    }
    down
}

/// What is on record of a request; reported again whenever it has grown, and at its end in any case.
#[derive(Clone)]
struct Record(Arc<Recorded>);

struct Recorded {
    seen: Mutex<ModelRequest>,
    began: Instant,
    tenancy: Arc<Tenancy>,
    uplink: Uplink,
}

impl Record {
    fn new(seen: ModelRequest, tenancy: Arc<Tenancy>, uplink: Uplink) -> Self {
        Record(Arc::new(Recorded { seen: Mutex::new(seen), began: Instant::now(), tenancy, uplink }))
    }

    fn id(&self) -> u64 {
        self.with(|seen| seen.id)
    }

    fn with<T>(&self, edit: impl FnOnce(&mut ModelRequest) -> T) -> T {
        edit(&mut self.0.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn report(&self) -> Report {
        Report::ModelRequest {
            generation: self.0.tenancy.generation(),
            request: Box::new(self.with(|seen| seen.clone())),
        }
    }

    async fn send(&self) {
        self.0.uplink.report(&self.report()).await;
    }

    /// Reports from where nothing can be waited for; the tenancy's drain waits for it.
    fn send_later(&self) {
        let (record, report) = (self.clone(), self.report());
        self.0.tenancy.tasks.clone().spawn(async move { record.0.uplink.report(&report).await });
    }

    fn refuse(&self, refusal: Refusal) -> Response<Body> {
        match refusal {
            Refusal::InvalidTarget => {
                self.respond(StatusCode::BAD_REQUEST, "invalid_target", "the request's target is no path")
            }
            Refusal::NoRun => self.respond(StatusCode::FORBIDDEN, "no_run", "no run lives here"),
            _ => self.respond(
                StatusCode::FORBIDDEN,
                "path_not_allowed",
                "redroom passes on only the model endpoints that the agent needs",
            ),
        }
    }

    fn respond(&self, status: StatusCode, code: &str, message: &str) -> Response<Body> {
        self.with(|seen| seen.status = Some(status.as_u16()));
        let body = serde_json::json!({ "type": "error", "error": { "type": code, "message": message } });
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        let mut response = Response::new(Counted { body, record: self.closing() }.boxed_unsync());
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn closing(&self) -> Closing {
        Closing(self.clone())
    }
}

/// Reports the request for the last time when its answer is over, however it ended.
struct Closing(Record);

impl Drop for Closing {
    fn drop(&mut self) {
        let duration = u64::try_from(self.0.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.with(|seen| seen.duration_ms = Some(duration));
        self.0.send_later();
    }
}

/// A request's body on its way up, searched as it passes.
struct Searched {
    body: Incoming,
    scanner: Option<Scanner>,
    record: Record,
}

impl Searched {
    fn end(&mut self, complete: bool) {
        if let Some(scanner) = self.scanner.take() {
            let matches = scanner.finish();
            self.record.with(|seen| {
                add(&mut seen.secrets, Part::Body, &matches);
                seen.complete = complete;
            });
            self.record.send_later();
        }
    }
}

impl http_body::Body for Searched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    if let Some(scanner) = &mut self.scanner {
                        scanner.feed(data);
                    }
                    self.record.with(|seen| seen.request_bytes += data.len() as u64);
                }
                if self.body.is_end_stream() {
                    self.end(true);
                }
            }
            Poll::Ready(None) => self.end(true),
            Poll::Ready(Some(Err(_))) => self.end(false),
            Poll::Pending => {}
        }
        polled.map_err(|error| BodyError(error.to_string()))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Searched {
    fn drop(&mut self) {
        let complete = self.body.is_end_stream();
        self.end(complete);
    }
}

/// An answer's body on its way down, counted as it passes.
struct Counted<B> {
    body: B,
    record: Closing,
}

impl<B> http_body::Body for Counted<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.record.0.with(|seen| seen.response_bytes += data.len() as u64);
        }
        polled.map_err(|error| BodyError(error.to_string()))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
