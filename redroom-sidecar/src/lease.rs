//! A lease: how long what has a life of its own goes on without a word from the harness.
//!
//! A harness that is killed closes what it holds, and everything ends by that. One that hangs (stopped, in a debugger, swapped
//! out) closes nothing: sidecar, waiter and keeper of a slot hold a lease that it renews, and end by themselves when it is over.
//!
//! Time is the monotonic clock's: nobody can set it, and it stands still while the machine is suspended, so that a laptop that
//! wakes up finds its runs as it left them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a harness may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(Duration);

impl Lease {
    /// The shortest that can be kept on a busy machine.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest: a day in a debugger.
    pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    /// The variable by which a sidecar in a container is told its lease, in milliseconds.
    pub const VARIABLE: &str = "REDROOM_LEASE_MS";

    /// A lease of this length; `None` below [`SHORTEST`](Self::SHORTEST) and above [`LONGEST`](Self::LONGEST).
    pub fn new(length: Duration) -> Option<Self> {
        (Self::SHORTEST..=Self::LONGEST).contains(&length).then_some(Lease(length))
    }

    /// How long the harness may be silent; past it, it takes its runs for lost.
    pub fn length(self) -> Duration {
        self.0
    }

    /// How often the harness renews it.
    pub fn renewal(self) -> Duration {
        self.0 / 3
    }

    /// How long after the last word whoever holds it ends: a quarter later, so that never anything ends that the harness still
    /// counts on.
    pub fn end(self) -> Duration {
        self.0 + self.0 / 4
    }

    /// As [`VARIABLE`](Self::VARIABLE) says it.
    pub fn to_variable(self) -> String {
        self.0.as_millis().to_string()
    }

    /// What [`VARIABLE`](Self::VARIABLE) says.
    pub fn from_variable(text: &str) -> Option<Self> {
        Self::new(Duration::from_millis(text.parse().ok()?))
    }
}

impl Default for Lease {
    /// 90 s: renewed each 30 s, over 112.5 s after the last word.
    fn default() -> Self {
        Lease(Duration::from_secs(90))
    }
}

/// When something was last heard.
#[derive(Clone, Debug)]
pub(crate) struct LastHeard {
    start: Instant,
    /// Milliseconds since the start.
    at: Arc<AtomicU64>,
}

impl LastHeard {
    pub(crate) fn now() -> Self {
        LastHeard { start: Instant::now(), at: Arc::default() }
    }

    fn note(&self) {
        self.at.store(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What is left of a time that began with the last word; `None` if nothing is.
    pub(crate) fn rest_of(&self, time: Duration) -> Option<Duration> {
        let over = Duration::from_millis(self.at.load(Ordering::Relaxed)) + time;
        over.checked_sub(self.start.elapsed()).filter(|rest| !rest.is_zero())
    }
}

/// A link on which every byte that arrives is noted: whatever the harness sends renews the lease.
pub(crate) struct Listened<L> {
    pub(crate) link: L,
    pub(crate) heard: LastHeard,
}

impl<L: AsyncRead + Unpin> AsyncRead for Listened<L> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.link).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.heard.note();
        }
        Poll::Ready(read)
    }
}

impl<L: AsyncWrite + Unpin> AsyncWrite for Listened<L> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.link).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_usual_lease_is_renewed_each_half_minute_and_over_after_112_5_seconds() {
        let lease = Lease::default();
        assert_eq!(lease.length(), Duration::from_secs(90));
        assert_eq!(lease.renewal(), Duration::from_secs(30));
        assert_eq!(lease.end(), Duration::from_millis(112_500));
        assert_eq!(Lease::from_variable(&lease.to_variable()), Some(lease));
    }

    #[test]
    fn a_lease_has_bounds() {
        for refused in [Duration::ZERO, Duration::from_millis(999), Lease::LONGEST + Duration::from_millis(1)] {
            assert_eq!(Lease::new(refused), None, "{refused:?}");
        }
        for refused in ["", "-1", "1 s", "1", "18446744073709551615"] {
            assert_eq!(Lease::from_variable(refused), None, "{refused:?}");
        }
    }

    #[tokio::test]
    async fn a_byte_renews_and_the_link_s_end_does_not() {
        let (mut harness, link) = tokio::io::duplex(16);
        let heard = LastHeard::now();
        let mut link = Listened { link, heard: heard.clone() };
        // The clock counts whole milliseconds.
        let wait = |millis| tokio::time::sleep(Duration::from_millis(millis));
        wait(50).await;
        assert_eq!(heard.rest_of(Duration::from_millis(40)), None);
        harness.write_all(&[1]).await.unwrap();
        link.read_u8().await.unwrap();
        assert!(heard.rest_of(Duration::from_secs(40)).is_some_and(|rest| rest > Duration::from_secs(39)));
        wait(50).await;
        drop(harness);
        assert!(link.read_u8().await.is_err());
        assert_eq!(heard.rest_of(Duration::from_millis(40)), None);
    }
}
