//! DEFLATE, inflated a window at a time.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF as LINEAR,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::decoder::{Decoded, Progress};
use super::means::Permit;

/// How far back a match may reach.
const WINDOW: usize = 32 << 10;

pub(super) struct Inflate {
    state: DecompressorOxide,
    window: Box<[u8]>,
    at: usize,
    /// Whether the window was filled once: until then a match that reaches before its beginning is a fault.
    filled: bool,
    _permit: Permit,
}

impl Inflate {
    /// What one takes of memory, what reads its output included.
    pub(super) const WEIGHT: usize = 64 << 10;

    pub(super) fn new(permit: Permit) -> Self {
        Inflate {
            state: DecompressorOxide::new(),
            window: vec![0; WINDOW].into_boxed_slice(),
            at: 0,
            filled: false,
            _permit: permit,
        }
    }

    /// Ready for another stream, of which nothing of the last can become part.
    pub(super) fn reset(&mut self) {
        self.state.init();
        self.window.fill(0);
        self.at = 0;
        self.filled = false;
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Decoded<'_> {
        if self.at == WINDOW {
            self.at = 0;
            self.filled = true;
        }
        let flags = TINFL_FLAG_HAS_MORE_INPUT | if self.filled { 0 } else { LINEAR };
        let (status, read, written) = decompress(&mut self.state, input, &mut self.window, self.at, flags);
        let output = self.at..self.at + written;
        self.at = output.end;
        let progress = match status {
            TINFLStatus::Done => Progress::Ended,
            TINFLStatus::HasMoreOutput => Progress::More,
            TINFLStatus::NeedsMoreInput => Progress::Hungry,
            _ => Progress::Broken,
        };
        Decoded { read, output: &self.window[output], progress }
    }
}
