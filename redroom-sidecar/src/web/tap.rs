//! A tap on a connection: whatever comes in is searched, and the first of it kept, for what never becomes a request.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::KEPT;
use crate::search::{Encoding, Match, Scanner};
use crate::wire::Found;

/// A stream with a tap.
pub(super) struct Tap<S> {
    stream: S,
    tapped: Tapped,
}

/// What came through a tap. Cheap to clone.
#[derive(Clone)]
pub(super) struct Tapped(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    spoke: Notify,
}

struct State {
    scanner: Option<Scanner>,
    kept: Vec<u8>,
    total: u64,
    requests: u64,
    reported: HashSet<(String, Encoding)>,
}

/// All that came through a tap.
pub(super) struct Rest {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
    pub(super) requests: u64,
    pub(super) matches: Vec<Match>,
}

impl<S> Tap<S> {
    pub(super) fn new(stream: S, scanner: Scanner) -> (Self, Tapped) {
        let state = State { scanner: Some(scanner), kept: Vec::new(), total: 0, requests: 0, reported: HashSet::new() };
        let tapped = Tapped(Arc::new(Shared { state: Mutex::new(state), spoke: Notify::new() }));
        (Tap { stream, tapped: tapped.clone() }, tapped)
    }
}

impl Tapped {
    /// A request was made of what came.
    pub(super) fn request_came(&self) {
        let mut state = self.state();
        state.requests += 1;
        state.kept.clear();
    }

    /// These were found in a request, and reported with it.
    pub(super) fn reported(&self, found: &[Found]) {
        self.state().reported.extend(found.iter().map(|found| (found.secret.clone(), found.encoding)));
    }

    /// Whether this was found in a request.
    pub(super) fn was_reported(&self, found: &Match) -> bool {
        self.state().reported.contains(&(found.secret.to_string(), found.encoding))
    }

    /// All that came; what was kept is only there if no request was made of it.
    pub(super) fn take(&self) -> Rest {
        let mut state = self.state();
        let matches = state.scanner.take().map(Scanner::finish).unwrap_or_default();
        Rest { kept: std::mem::take(&mut state.kept), total: state.total, requests: state.requests, matches }
    }

    /// Ends when nothing at all has come for this long; never once something has.
    pub(super) async fn silent_for(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.0.spoke.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    fn came(&self, bytes: &[u8]) {
        let mut state = self.state();
        if state.total == 0 {
            self.0.spoke.notify_one();
        }
        state.total += bytes.len() as u64;
        if state.requests == 0 {
            let room = KEPT - state.kept.len().min(KEPT);
            state.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if let Some(scanner) = &mut state.scanner {
            scanner.feed(bytes);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let came = &buffer.filled()[before..];
        if !came.is_empty() {
            self.tapped.came(came);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
