//! Silence as an error: a body, or a wait, that fails when nothing has moved for too long.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::Error;
use crate::outbound::Body;

/// When a body last moved, and what it failed with.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    last: Instant,
    fault: Option<Error>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Activity(Arc::new(Mutex::new(State { last: Instant::now(), fault: None })))
    }

    /// The error that the watched body ended with, if it did.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.state().fault.clone()
    }

    /// Returns when nothing has moved for this long.
    pub(crate) async fn silence(&self, limit: Duration) {
        loop {
            let end = self.state().last + limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body whose movements are noted.
pub(crate) struct Watched {
    body: Body,
    activity: Activity,
}

impl Watched {
    pub(crate) fn new(body: Body, activity: Activity) -> Self {
        Watched { body, activity }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let mut state = self.activity.state();
        state.last = Instant::now();
        if let Some(Err(error)) = &frame {
            state.fault = Some(error.clone());
        }
        drop(state);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that fails after a silence. The clock runs only while somebody waits for more.
pub(crate) struct Impatient<B, F> {
    body: B,
    limit: Duration,
    clock: Pin<Box<Sleep>>,
    waiting: bool,
    ended: bool,
    fault: F,
}

/// How a body came to a bad end.
#[derive(Debug)]
pub(crate) enum BodyEnd<E> {
    /// Nothing came for too long.
    Silence,
    /// It broke off.
    Broken(E),
}

impl<B, F> Impatient<B, F> {
    pub(crate) fn new(body: B, limit: Duration, fault: F) -> Self {
        let clock = Box::pin(sleep_until(Instant::now() + limit));
        Impatient { body, limit, clock, waiting: false, ended: false, fault }
    }
}

impl<B, F> HttpBody for Impatient<B, F>
where
    B: HttpBody<Data = Bytes> + Unpin,
    F: Fn(BodyEnd<B::Error>) -> Error + Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| {
                frame.map_err(|error| {
                    this.ended = true;
                    (this.fault)(BodyEnd::Broken(error))
                })
            }));
        }
        if !std::mem::replace(&mut this.waiting, true) {
            this.clock.as_mut().reset(Instant::now() + this.limit);
        }
        ready!(this.clock.as_mut().poll(cx));
        this.ended = true;
        Poll::Ready(Some(Err((this.fault)(BodyEnd::Silence))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
