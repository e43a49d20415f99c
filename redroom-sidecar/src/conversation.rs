//! A conversation: HTTP with one client over one connection, whatever it is about. Sees to it that requests are answered
//! by tasks that outlive the connection, that silence is ended, and that bytes which were no request become a hit.

mod party;
mod rest;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(crate) use self::party::{Fragmented, Party, Reading};
pub(crate) use self::rest::{LAST_WORDS, last_word, report_rest, report_untold};
use crate::pipe::Piped;
use crate::witness::Witness;

/// What a request is answered with.
pub(crate) type Answer = Response<Either<Full<Bytes>, Piped>>;

/// The most that a request's head may weigh.
const HEAD: usize = 64 * 1024;

/// The same over HTTP/2, where a head that weighs more is turned away before anybody sees it: more than two arguments of a
/// command line can hold.
const HTTP2_HEAD: u32 = 288 * 1024;

/// How much of HTTP/2 bodies may wait here: for one stream, and for a connection.
const HTTP2_WINDOWS: (u32, u32) = (64 * 1024, 256 * 1024);

/// How a kind of conversation is held.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Whether HTTP/2 is understood, too.
    pub(crate) http2: bool,
    /// Whether a client that has said all may still be answered; else its end of the stream is its leaving.
    pub(crate) half_close: bool,
    /// How long a head may take, and a kept connection lie idle.
    pub(crate) head_patience: Duration,
    /// How long nothing at all may move, while a request is answered, too.
    pub(crate) silence: Option<Duration>,
    /// Whether HTTP is but one of the protocols that may be spoken. Who speaks another makes no mistake: it is heard out
    /// with as much patience, and never answered.
    pub(crate) any_protocol: bool,
}

/// Talks until the client goes away, falls silent, or is cut off. `answer` runs in a task that outlives the connection, so
/// that a request is reported to its end however it ends; it learns from its sender that nobody waits any more.
pub(crate) async fn hold<S, A, F>(party: &Arc<Party>, witness: Witness<S>, manner: Manner, answer: A)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    A: Fn(Arc<Party>, Request<Incoming>, oneshot::Sender<Answer>) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let answering = TaskTracker::new();
    let service = service_fn(|mut request| {
        party.hear(&mut request);
        let (party, answering) = (party.clone(), answering.clone());
        async move {
            let (sender, receiver) = oneshot::channel();
            let task = answering.track_future(answer(party.clone(), request, sender));
            party.slot.spawn(&party.tenant, task);
            let unanswered = || plain(StatusCode::SERVICE_UNAVAILABLE, "unavailable");
            Ok::<_, Infallible>(receiver.await.unwrap_or_else(|_| unanswered()))
        }
    });
    let builder = http(manner);
    let (fault, patience) = {
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(witness.clone()), service);
        tokio::select! {
            ended = connection => match ended {
                _ if manner.any_protocol => (None, manner.silence.unwrap_or(LAST_WORDS)),
                Ok(()) => (Some("the connection ended without a request".to_owned()), LAST_WORDS),
                Err(error) => (Some(describe(&*error)), LAST_WORDS),
            },
            () = fell_silent(&witness, manner) => (Some("the client fell silent".to_owned()), LAST_WORDS),
            () = party.tenant.cut.cancelled() => {
                party.note_cut();
                (Some("the connection was cut at the end of its run".to_owned()), LAST_WORDS)
            }
        }
    };
    if party.given_away.load(Ordering::Relaxed) {
        answering.close();
        answering.wait().await;
        return report_untold(party).await;
    }
    if party.memory.is_watched() {
        // Of a body that did not come to its end, nobody takes what was not taken yet.
        party.memory.pass_over(0..0);
        if party.mid_body.load(Ordering::Relaxed) {
            party.suspect(party.tenant.secrets().search_whole(&party.memory.bytes()));
        }
        // Whoever closes first has not heard all: what came later is evidence as well.
        let mut buffer = [0; 16 * 1024];
        while !party.left_something() && last_word(party, &mut witness.clone(), &mut buffer, LAST_WORDS).await > 0 {}
        answering.close();
        answering.wait().await;
    }
    if party.left_something() {
        report_rest(party, witness.clone(), fault, patience).await;
        if !manner.any_protocol {
            reject(party, witness).await;
        }
    }
    report_untold(party).await;
}

async fn fell_silent<S>(witness: &Witness<S>, manner: Manner) {
    match manner.silence {
        Some(silence) => witness.pulse().stopped(silence).await,
        None => std::future::pending().await,
    }
}

fn http(manner: Manner) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if manner.http2 { builder } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(manner.head_patience)
        .half_close(manner.half_close)
        .max_buf_size(HEAD)
        .max_headers(1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(HTTP2_WINDOWS.0)
        .initial_connection_window_size(HTTP2_WINDOWS.1)
        .max_concurrent_streams(32)
        .max_header_list_size(HTTP2_HEAD)
        .max_send_buf_size(HEAD);
    builder
}

/// Tells a client that it was not understood, now that it has said all. One that does not listen is left alone.
async fn reject<S: AsyncWrite + Unpin>(party: &Party, mut witness: Witness<S>) {
    if !party.asked.load(Ordering::Relaxed) {
        party.memory.understood();
        let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = timeout(LAST_WORDS, async {
            witness.write_all(answer).await?;
            witness.shutdown().await
        })
        .await;
    }
}

/// A short answer in plain text.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from_static(text.as_bytes()))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(value.to_string().into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An error with its causes in one line.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
