//! A conversation: HTTP with one client over one connection, whatever it is about. Sees to it that requests are answered
//! by tasks that outlive the connection, that silence is ended, and that bytes which were no request become a hit.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::dns::elsewhere::Messages;
use crate::domain::labels;
use crate::intake::{Intake, note, note_searched};
use crate::pipe::Piped;
use crate::search::{Searched, Unsearched, note_unsearched};
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::{Hit, Part};
use crate::witness::{Memory, Witness};

/// What a request is answered with.
pub(crate) type Answer = Response<Either<Full<Bytes>, Piped>>;

/// The most that a request's head may weigh.
const HEAD: usize = 64 * 1024;

/// The same over HTTP/2, where a head that weighs more is turned away before anybody sees it: more than two arguments of a
/// command line can hold.
const HTTP2_HEAD: u32 = 288 * 1024;

/// How much of HTTP/2 bodies may wait here: for one stream, and for a connection.
const HTTP2_WINDOWS: (u32, u32) = (64 * 1024, 256 * 1024);

/// How long a client that should have spoken HTTP and did not may pause before its last word was said.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(5);

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

/// Who talks, and about what.
pub(crate) struct Party {
    pub(crate) slot: Arc<Slot>,
    pub(crate) tenant: Arc<Tenant>,
    /// The address that the client meant.
    pub(crate) meant: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) server_name: Option<String>,
    /// What was read last, for HTTP/1.
    memory: Memory,
    asked: AtomicBool,
    mid_body: AtomicBool,
    /// Where in an HTTP/1 connection the body of the last request began.
    body_start: AtomicU64,
    /// Whether the memory begins where a request does, as far as is known.
    aligned: AtomicBool,
    /// Whether it is no HTTP any more: whoever speaks the other protocol reads it to its end.
    given_away: AtomicBool,
    /// What its hits tell of.
    told: Mutex<Told>,
    /// What searches beside its requests came to: through a greeting, a body that nobody took, what is no TLS.
    beside: Mutex<Searched>,
    /// Whether it was cut because patience ended.
    cut: AtomicBool,
}

impl Party {
    pub(crate) fn new(
        slot: Arc<Slot>,
        tenant: Arc<Tenant>,
        meant: SocketAddr,
        tls: Option<Option<String>>,
        memory: Memory,
    ) -> Arc<Self> {
        let (tls, server_name) = (tls.is_some(), tls.flatten());
        let (asked, mid_body) = (AtomicBool::new(false), AtomicBool::new(false));
        let (body_start, aligned) = (AtomicU64::new(0), AtomicBool::new(true));
        Arc::new(Party {
            slot,
            tenant,
            meant,
            tls,
            server_name,
            memory,
            asked,
            mid_body,
            body_start,
            aligned,
            given_away: AtomicBool::new(false),
            told: Mutex::default(),
            beside: Mutex::default(),
            cut: AtomicBool::new(false),
        })
    }

    /// Patience ended before the client had said all. A connection counts once, whoever notices.
    pub(crate) fn note_cut(&self) {
        if !self.cut.swap(true, Ordering::Relaxed) {
            self.tenant.note_cut();
        }
    }

    /// A request has begun.
    fn hear(&self, request: &mut Request<Incoming>) {
        self.asked.store(true, Ordering::Relaxed);
        self.memory.understood();
        if request.version() == Version::HTTP_2 {
            return self.memory.retire();
        }
        let aligned = self.aligned.load(Ordering::Relaxed);
        if let Some(target) = self.memory.target_with_fragment().filter(|_| aligned) {
            request.extensions_mut().insert(Fragmented(target));
        }
        if let Some(end) = self.memory.end_of_head() {
            self.memory.forget_before(end);
            self.body_start.store(end, Ordering::Relaxed);
            if let Some(length) = request.body().size_hint().exact().filter(|_| aligned) {
                self.memory.pass_over(end..end.saturating_add(length));
            }
        }
        self.mid_body.store(!request.body().is_end_stream(), Ordering::Relaxed);
    }

    /// A request has come to the end of its body. What remains in memory was read beyond it.
    fn hear_out(&self, body_bytes: u64, chunked: bool) {
        let start = self.body_start.load(Ordering::Relaxed);
        if !chunked {
            self.memory.forget_before(start + body_bytes);
        } else if !self.memory.forget_chunked(start) {
            // Of a long body only the end is remembered: usually nothing came with it.
            self.aligned.store(false, Ordering::Relaxed);
            self.memory.forget_ending_with(b"\r\n\r\n");
        }
        self.mid_body.store(false, Ordering::Relaxed);
    }

    /// The connection goes over to another protocol.
    pub(crate) fn give_away(&self) {
        self.given_away.store(true, Ordering::Relaxed);
        self.memory.retire();
    }

    /// What was read before a place was understood.
    pub(crate) fn understand(&self, place: u64) {
        self.asked.store(true, Ordering::Relaxed);
        self.memory.understood();
        self.memory.forget_before(place);
    }

    /// A hit for what is no request.
    fn hit_without_request(&self) -> Hit {
        let Party { tenant, meant, .. } = self;
        let mut hit = tenant.hit_on_address(*meant);
        if let Some(name) = &self.server_name {
            hit.blocked = !tenant.owns(name);
            hit.host = name.clone();
            note_searched(&mut hit, Part::Host, tenant.secrets().search_name(&labels(name)));
        }
        hit.server_name = self.server_name.clone();
        hit
    }

    /// Something that is in no request was searched.
    pub(crate) fn suspect(&self, searched: Searched) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).join(searched);
    }

    /// This is a hit of this connection, searched whole.
    pub(crate) fn tell(&self, hit: &Hit) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.secrets.extend(hit.secrets.iter().map(|found| found.secret.clone()));
        note_unsearched(&mut told.unsearched, hit.unsearched.iter().cloned());
    }

    /// What was sent, but is in no hit: secrets, and what could not be searched. What looks broken does not count: where a
    /// stream was searched as it came, its transport's own marks may have cut what is whole.
    fn untold(&self) -> Searched {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        sent.join(self.memory.watched());
        sent.matches.retain(|found| !told.secrets.contains(&*found.secret));
        sent.unsearched
            .retain(|part| !part.why.may_be_cut() && !told.unsearched.iter().any(|known| known.is_like(part)));
        sent
    }

    /// Whether the client said something that was no request, or nothing at all.
    pub(crate) fn left_something(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) || !self.mid_body.load(Ordering::Relaxed) && !self.memory.is_empty()
    }
}

/// What the hits of a connection tell of.
#[derive(Default)]
struct Told {
    /// Names of secrets.
    secrets: HashSet<String>,
    unsearched: Vec<Unsearched>,
}

/// A target with a fragment, as it was sent.
#[derive(Clone)]
pub(crate) struct Fragmented(pub(crate) String);

/// A body that is being read.
pub(crate) struct Reading<'a> {
    party: &'a Party,
    body: Incoming,
    bytes: u64,
    chunked: bool,
    trailers: HeaderMap,
    whole: bool,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(party: &'a Party, body: Incoming) -> Self {
        let chunked = body.size_hint().exact().is_none();
        Reading { party, body, bytes: 0, chunked, trailers: HeaderMap::new(), whole: false }
    }

    /// The next chunk, or `None` when there is no more.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        while let Some(frame) = self.body.frame().await {
            match frame.ok()?.into_data() {
                Ok(data) => {
                    self.bytes += data.len() as u64;
                    return Some(data);
                }
                Err(frame) => self.trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        self.whole = true;
        self.party.hear_out(self.bytes, self.chunked);
        None
    }

    /// The trailers, or `None` if the body was cut off.
    pub(crate) fn trailers(self) -> Option<HeaderMap> {
        self.whole.then_some(self.trailers)
    }
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

/// Reports what no hit of the connection tells of, in what a parser passes over, or turns away.
pub(crate) async fn report_untold(party: &Party) {
    let untold = party.untold();
    let what = match (&untold.matches[..], &untold.unsearched[..]) {
        ([], []) => return,
        ([], _) => "what cannot be searched",
        _ => "a secret",
    };
    let mut hit = party.hit_without_request();
    hit.fault = Some(format!("{what} was sent beside the requests of its connection"));
    hit.complete = true;
    note_searched(&mut hit, Part::Body, untold);
    party.slot.reports.hit(&party.tenant, &hit).await;
}

/// Reads what a client says within its `patience`, if it says something. Returns how much it is.
pub(crate) async fn last_word<S: AsyncRead + Unpin>(
    party: &Party,
    witness: &mut Witness<S>,
    buffer: &mut [u8],
    patience: Duration,
) -> usize {
    let read = tokio::select! {
        read = timeout(patience, witness.read(buffer)) => read,
        () = party.tenant.cut.cancelled() => {
            // Whose end is here already has said all.
            if !matches!(witness.read(buffer).now_or_never(), Some(Ok(0) | Err(_))) {
                party.note_cut();
            }
            return 0;
        }
    };
    read.map_or(0, Result::unwrap_or_default)
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

/// What is left of a connection that is no request, or no more: read to its end, searched whole, reported.
/// `patience` is how long the client may pause.
pub(crate) async fn report_rest<S: AsyncRead + Unpin>(
    party: &Party,
    mut witness: Witness<S>,
    fault: Option<String>,
    patience: Duration,
) {
    let Party { slot, tenant, .. } = party;
    let mut hit = party.hit_without_request();
    hit.fault = fault;
    let mut rest = Intake::new(tenant.secrets());
    let mut messages = Messages::default();
    let said = party.memory.take();
    rest.feed(&said);
    party.memory.retire();
    note_searched(&mut hit, Part::Body, messages.feed(tenant.secrets(), &said));
    rest.tell(&mut hit);
    slot.reports.hit(tenant, &hit).await;

    let mut buffer = vec![0; 16 * 1024];
    loop {
        match last_word(party, &mut witness, &mut buffer, patience).await {
            0 => break,
            length => {
                rest.feed(&buffer[..length]);
                note_searched(&mut hit, Part::Body, messages.feed(tenant.secrets(), &buffer[..length]));
            }
        }
        if note(&mut hit.secrets, Part::Body, rest.matches()) {
            rest.tell(&mut hit);
            slot.reports.hit(tenant, &hit).await;
        }
    }
    rest.fill(&mut hit);
    note_searched(&mut hit, Part::Body, messages.finish(tenant.secrets()));
    hit.complete = true;
    party.tell(&hit);
    slot.reports.hit(tenant, &hit).await;
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
