//! A body that somebody else feeds. Its end must be said: a feeder that just goes away leaves a body that was cut off,
//! never one that looks whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

/// A body whose feeder went away before its end.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut off")]
pub(crate) struct CutOff;

/// The feeding end: holds one piece at most, so that whoever feeds goes at the pace of whoever reads.
pub(crate) struct Feed(mpsc::Sender<Piece>);

/// The body.
pub(crate) struct Piped {
    pieces: mpsc::Receiver<Piece>,
    ended: bool,
}

enum Piece {
    Data(Bytes),
    End,
}

pub(crate) fn pipe() -> (Feed, Piped) {
    let (sender, pieces) = mpsc::channel(1);
    (Feed(sender), Piped { pieces, ended: false })
}

impl Feed {
    /// Whether somebody still reads.
    pub(crate) async fn send(&self, data: Bytes) -> bool {
        self.0.send(Piece::Data(data)).await.is_ok()
    }

    /// The body came to its end.
    pub(crate) async fn end(self) {
        let _ = self.0.send(Piece::End).await;
    }

    /// Returns when nobody reads any more.
    pub(crate) async fn abandoned(&self) {
        self.0.closed().await;
    }
}

impl Body for Piped {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.pieces.poll_recv(cx).map(|piece| match piece {
            Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Piece::End) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                Some(Err(CutOff))
            }
        })
    }
}
