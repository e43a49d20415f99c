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

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(120);

    /// A body of so many pieces, each after a pause.
    fn paced(pieces: usize, pause: Duration) -> Body {
        let pieces = stream::iter(0..pieces).then(move |_| async move {
            sleep(pause).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    fn impatient(body: Body) -> Body {
        Impatient::new(body, LIMIT, |end| match end {
            BodyEnd::Silence => Error::redroom("timeout", "silent"),
            BodyEnd::Broken(error) => error,
        })
        .boxed_unsync()
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_lives_as_long_as_something_comes() {
        let whole = impatient(paced(100, LIMIT - Duration::from_secs(1))).collect().await.unwrap();
        assert_eq!(whole.to_bytes().len(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_body_fails_at_the_limit_and_then_ends() {
        let begun = Instant::now();
        let mut body = impatient(paced(1, LIMIT * 2));
        assert_eq!(body.frame().await.unwrap().unwrap_err().code(), "timeout");
        assert_eq!(begun.elapsed(), LIMIT);
        assert!(body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_its_time_is_not_held_against_the_body() {
        let mut body = impatient(paced(2, Duration::from_secs(1)));
        body.frame().await.unwrap().unwrap();
        sleep(LIMIT * 3).await;
        assert!(body.frame().await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_begins_when_the_last_piece_of_a_request_has_moved() {
        let begun = Instant::now();
        let activity = Activity::new();
        let request = Watched::new(paced(3, Duration::from_secs(100)), activity.clone());
        let sending = async {
            request.collect().await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => unreachable!(),
            () = activity.silence(LIMIT) => {}
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(300) + LIMIT);
    }
}
