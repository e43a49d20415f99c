//! A decoder takes compressed bytes and gives what they stand for, a piece at a time.

use super::container::Why;
use super::deflate::Inflate;
use super::means::Means;

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
}

impl Decoder {
    pub(super) fn deflate(means: &mut Means) -> Result<Self, Why> {
        means.open_inflate().map(Decoder::Deflate).ok_or(Why::TooMany)
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Decoded<'_> {
        match self {
            Decoder::Deflate(inflate) => inflate.decode(input),
        }
    }

    /// What it holds back, where the input broke off.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        match self {
            Decoder::Deflate(_) => Vec::new(),
        }
    }

    pub(super) fn close(self, means: &mut Means) {
        match self {
            Decoder::Deflate(inflate) => means.close_inflate(inflate),
        }
    }
}
