//! Bounds as errors: a body that fails where it weighs more than it may, as a whole or in one line. Nothing of it is kept.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::error::Error;

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    /// For what consists of lines.
    pub(crate) line: Option<u64>,
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Bytes,
    Line,
}

/// A body that is held to bounds.
pub(crate) struct Bounded<B, F> {
    body: B,
    bounds: Bounds,
    bytes: u64,
    line: u64,
    ended: bool,
    fault: F,
}

impl<B, F> Bounded<B, F> {
    pub(crate) fn new(body: B, bounds: Bounds, fault: F) -> Self {
        Bounded { body, bounds, bytes: 0, line: 0, ended: false, fault }
    }

    /// Counts the next bytes.
    fn count(&mut self, data: &[u8]) -> Option<Excess> {
        self.bytes += data.len() as u64;
        let limit = self.bounds.line.unwrap_or(u64::MAX);
        for line in data.split_inclusive(|&byte| byte == b'\n') {
            self.line += line.len() as u64;
            if self.line > limit {
                return Some(Excess::Line);
            }
            if line.ends_with(b"\n") {
                self.line = 0;
            }
        }
        (self.bytes > self.bounds.bytes).then_some(Excess::Bytes)
    }
}

impl<B, F> HttpBody for Bounded<B, F>
where
    B: HttpBody<Data = Bytes, Error = Error> + Unpin,
    F: Fn(Excess) -> Error + Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let excess = match &frame {
            Some(Ok(frame)) => frame.data_ref().and_then(|data| this.count(data)),
            _ => None,
        };
        Poll::Ready(match excess {
            None => frame,
            Some(excess) => {
                this.ended = true;
                Some(Err((this.fault)(excess)))
            }
        })
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
    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    async fn read(pieces: &'static [&'static str], bounds: Bounds) -> (usize, Option<Error>) {
        let pieces = stream::iter(pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))));
        let mut body =
            Bounded::new(StreamBody::new(pieces), bounds, |excess| Error::redroom("too_much", format!("{excess:?}")));
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => length += frame.into_data().unwrap().len(),
                Err(error) => {
                    assert!(body.frame().await.is_none() && body.is_end_stream());
                    return (length, Some(error));
                }
            }
        }
        (length, None)
    }

    #[tokio::test]
    async fn what_is_within_passes_and_nothing_of_what_is_beyond() {
        let bounds = |bytes, line| Bounds { bytes, line };
        let told = |(length, error): (usize, Option<Error>)| (length, error.map(|error| error.detail().to_owned()));
        const LINES: &[&str] = &["ab\nc", "d\n", "", "\nabcd\n"];
        assert_eq!(told(read(LINES, bounds(12, Some(5))).await), (12, None));
        assert_eq!(told(read(LINES, bounds(11, Some(5))).await), (6, Some("Bytes".to_owned())));
        assert_eq!(told(read(LINES, bounds(12, Some(4))).await), (6, Some("Line".to_owned())));
        assert_eq!(told(read(&["abc", "abc"], bounds(12, Some(5))).await), (3, Some("Line".to_owned())));
        assert_eq!(told(read(&["abc", "abc"], bounds(12, None)).await), (6, None));
    }
}
