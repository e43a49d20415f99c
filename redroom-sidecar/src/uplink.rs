//! The sidecar's end of the stream to its harness: reports go up, commands come down, model and hook requests are passed on.
//!
//! Reports wait in a short queue. When the harness does not keep up, whoever reports waits, and with it the agent: nothing is
//! lost and nothing grows.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::wire::frame::{self, COMMAND_LIMIT, Decoder};
use crate::wire::{Command, GENERATION, Generation, Report};

/// A body that goes up or comes down, as it streams.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BodyError(pub(crate) String);

/// How many reports may wait for the harness.
const QUEUE: usize = 64;

/// The way to the harness. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Uplink {
    reports: mpsc::Sender<Bytes>,
    requests: SendRequest<Body>,
}

/// What a link is made of: the way up, commands as they come, and the task that keeps the connection.
pub(crate) struct Opened {
    pub(crate) uplink: Uplink,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) connection: tokio::task::JoinHandle<Result<(), hyper::Error>>,
}

/// The link could not be made, or was lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// HTTP/2 broke.
    #[error("the stream to the harness was lost")]
    Lost(#[from] hyper::Error),
    /// The harness does not take a session.
    #[error("the harness answered the session with {0}")]
    Refused(http::StatusCode),
}

impl Uplink {
    /// Takes up the stream and opens the session on it.
    pub(crate) async fn open<S>(stream: S) -> Result<Opened, LinkError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut requests, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            // Model answers can stall at an agent that does not read: each has a window of its own, and the connection's
            // window holds all of them, so that commands are never behind a stalled answer.
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(128 * 1024 * 1024)
            .keep_alive_interval(Some(Duration::from_secs(10)))
            .keep_alive_timeout(Duration::from_secs(60))
            .handshake(TokioIo::new(stream))
            .await?;
        let connection = tokio::spawn(connection);
        let (reports, queue) = mpsc::channel(QUEUE);
        let up = futures_util::stream::unfold(queue, |mut queue: mpsc::Receiver<Bytes>| async move {
            queue.recv().await.map(|report| (Ok(Frame::data(report)), queue))
        });
        let request = Request::post("http://harness/session").body(StreamBody::new(up).boxed_unsync());
        let request = request.unwrap_or_else(|_| Request::new(empty()));
        let response = requests.send_request(request).await?;
        if !response.status().is_success() {
            return Err(LinkError::Refused(response.status()));
        }
        let (sender, commands) = mpsc::channel(4);
        tokio::spawn(read_commands(response.into_body(), sender));
        Ok(Opened { uplink: Uplink { reports, requests }, commands, connection })
    }

    /// Reports; waits while the harness does not keep up. A report that cannot be sent any more means that the link is lost,
    /// which ends everything.
    pub(crate) async fn report(&self, report: &Report) {
        match frame::encode(report) {
            Ok(frame) => {
                let _ = self.reports.send(frame).await;
            }
            Err(error) => eprintln!("redroom-sidecar: a report cannot be encoded: {error}"),
        }
    }

    /// Passes a request on.
    pub(crate) async fn ask(
        &self,
        path: &'static str,
        generation: Generation,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::builder()
            .scheme("http")
            .authority("harness")
            .path_and_query(path)
            .build()
            .unwrap_or_else(|_| http::Uri::from_static("http://harness/"));
        *request.version_mut() = http::Version::HTTP_2;
        request.headers_mut().insert(GENERATION, HeaderValue::from(generation.0));
        let mut requests = self.requests.clone();
        requests.ready().await?;
        requests.send_request(request).await
    }
}

/// No body.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

async fn read_commands(body: Incoming, commands: mpsc::Sender<Command>) {
    let mut decoder = Decoder::new(COMMAND_LIMIT);
    let mut frames = BodyStream::new(body);
    while let Some(Ok(frame)) = frames.next().await {
        let Ok(data) = frame.into_data() else { continue };
        decoder.push(&data);
        loop {
            match decoder.next_frame::<Command>() {
                Ok(Some(command)) => {
                    if commands.send(command).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    eprintln!("redroom-sidecar: a command does not parse: {error}");
                    return;
                }
            }
        }
    }
}
