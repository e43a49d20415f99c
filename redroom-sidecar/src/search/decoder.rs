//! A decoder takes compressed bytes and gives what they stand for, a piece at a time.

use super::container::Why;
use super::deflate::Inflate;
use super::means::Means;
use super::zstd::{FrameHead, Zstd};

/// What one step came to.
pub(super) struct Decoded<'a> {
    /// How many bytes of the input were taken.
    pub(super) read: usize,
    pub(super) output: &'a [u8],
    pub(super) progress: Progress,
}

/// Whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more output without more input.
    More,
    /// All input was taken.
    Hungry,
    Ended,
    Broken,
}

pub(super) enum Decoder {
    Deflate(Box<Inflate>),
    Zstd(Box<Zstd>),
}

impl Decoder {
    pub(super) fn deflate(means: &mut Means) -> Result<Self, Why> {
        means.open_inflate().map(Decoder::Deflate).ok_or(Why::TooMany)
    }

    pub(super) fn zstd(head: FrameHead, means: &mut Means) -> Result<Self, Why> {
        let weight = head.weight()?;
        match means.open(weight, |permit| Zstd::new(head, permit)) {
            None => Err(Why::TooMany),
            Some(None) => {
                means.close();
                Err(Why::Damaged)
            }
            Some(Some(zstd)) => Ok(Decoder::Zstd(Box::new(zstd))),
        }
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Decoded<'_> {
        match self {
            Decoder::Deflate(inflate) => inflate.decode(input),
            Decoder::Zstd(zstd) => zstd.decode(input),
        }
    }

    /// Whether so much was decoded that it stands there for no other reason, though it may not have been given yet.
    pub(super) fn is_proven(&self) -> bool {
        match self {
            Decoder::Deflate(_) => false,
            Decoder::Zstd(zstd) => zstd.is_proven(),
        }
    }

    /// The input broke off: what was held back is given without more of it.
    pub(super) fn break_off(&mut self) {
        if let Decoder::Zstd(zstd) = self {
            zstd.break_off();
        }
    }

    pub(super) fn close(self, means: &mut Means) {
        match self {
            Decoder::Deflate(inflate) => means.close_inflate(inflate),
            Decoder::Zstd(_) => means.close(),
        }
    }
}
