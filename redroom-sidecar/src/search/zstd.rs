//! Zstandard frames, a block at a time.

use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::container::Why;
use super::decoder::{Decoded, Progress};
use super::means::Permit;

/// The most that a match may reach back; `zstd` uses as much only from level 20 on.
const WINDOW: u64 = 8 << 20;

/// What a decoder takes beside its window: two blocks, tables, what reads its output.
const WEIGHT: usize = 640 << 10;

const BLOCK_HEAD: usize = 3;
const BLOCK: usize = 128 << 10;

/// How much is given at once.
const OUTPUT: usize = 32 << 10;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A frame's head after its magic number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameHead {
    bytes: [u8; 14],
    have: usize,
}

impl FrameHead {
    /// Takes bytes until the head is whole. `Some`: how many were taken for that.
    pub(super) fn fill(&mut self, input: &[u8]) -> Option<usize> {
        let mut read = 0;
        while self.have == 0 || self.have < self.length() {
            self.bytes[self.have] = *input.get(read)?;
            self.have += 1;
            read += 1;
        }
        Some(read)
    }

    fn length(&self) -> usize {
        1 + usize::from(!self.is_single()) + self.dictionary_length() + self.size_length()
    }

    /// Whether the content is its own window.
    fn is_single(&self) -> bool {
        self.bytes[0] >> 5 & 1 == 1
    }

    fn dictionary_length(&self) -> usize {
        [0, 1, 2, 4][usize::from(self.bytes[0] & 3)]
    }

    fn size_length(&self) -> usize {
        [usize::from(self.is_single()), 2, 4, 8][usize::from(self.bytes[0] >> 6)]
    }

    /// The window of a frame that can be opened.
    fn window(&self) -> Result<usize, Why> {
        if self.dictionary_length() > 0 {
            return Err(Why::Unsupported);
        }
        let window = if self.is_single() {
            let mut size = [0; 8];
            size[..self.size_length()].copy_from_slice(&self.bytes[1..=self.size_length()]);
            u64::from_le_bytes(size) + if self.size_length() == 2 { 256 } else { 0 }
        } else {
            let base = 1_u64 << (10 + (self.bytes[1] >> 3));
            base + base / 8 * u64::from(self.bytes[1] & 7)
        };
        if window > WINDOW { Err(Why::TooLarge) } else { Ok(window as usize) }
    }

    /// What a decoder of it takes of memory.
    pub(super) fn weight(&self) -> Result<usize, Why> {
        Ok(self.window()? + WEIGHT)
    }
}

pub(super) struct Zstd {
    frame: FrameDecoder,
    block: Vec<u8>,
    wanted: usize,
    is_last: bool,
    output: Box<[u8]>,
    _permit: Permit,
}

impl Zstd {
    /// `None` if the head is none.
    pub(super) fn new(head: FrameHead, permit: Permit) -> Option<Self> {
        const CHECKSUM: u8 = 4;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&head.bytes[..head.have]);
        // What is damaged is found damaged, or searched as it is.
        bytes[MAGIC.len()] &= !CHECKSUM;
        let mut frame = FrameDecoder::new();
        frame.reset(&bytes[..]).ok()?;
        let output = vec![0; OUTPUT].into_boxed_slice();
        Some(Zstd { frame, block: Vec::new(), wanted: BLOCK_HEAD, is_last: false, output, _permit: permit })
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Decoded<'_> {
        let written = self.frame.read(&mut self.output).unwrap_or(0);
        if written > 0 {
            return Decoded { read: 0, output: &self.output[..written], progress: Progress::More };
        }
        let (read, progress) = if self.is_last { (0, Progress::Ended) } else { self.take(input) };
        Decoded { read, output: &[], progress }
    }

    /// Whether a block was decoded.
    pub(super) fn is_proven(&self) -> bool {
        self.frame.blocks_decoded() > 0
    }

    /// Takes what belongs to a block, and decodes the block when it is whole.
    fn take(&mut self, input: &[u8]) -> (usize, Progress) {
        let mut read = 0;
        loop {
            let part = &input[read..];
            let part = &part[..part.len().min(self.wanted - self.block.len())];
            self.block.extend_from_slice(part);
            read += part.len();
            if self.block.len() < self.wanted {
                return (read, Progress::Hungry);
            }
            if self.wanted == BLOCK_HEAD {
                let Some(length) = content_length(&self.block) else { return (read, Progress::Broken) };
                self.wanted += length;
            }
            if self.block.len() == self.wanted {
                self.is_last = self.block[0] & 1 == 1;
                let progress =
                    if decode_block(&mut self.frame, &self.block) { Progress::More } else { Progress::Broken };
                self.block.clear();
                self.wanted = BLOCK_HEAD;
                return (read, progress);
            }
        }
    }

    /// The input broke off: what was held back for matches to come is given as well.
    pub(super) fn break_off(&mut self) {
        const EMPTY_LAST_BLOCK: [u8; 3] = [1, 0, 0];
        if !self.is_last {
            self.is_last = decode_block(&mut self.frame, &EMPTY_LAST_BLOCK);
        }
    }
}

/// How much follows a block's head; `None` if it is none.
fn content_length(head: &[u8]) -> Option<usize> {
    let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let size = (head >> 3) as usize;
    match head >> 1 & 3 {
        1 => Some(1),
        0 | 2 if size <= BLOCK => Some(size),
        _ => None,
    }
}

/// The decoder states what it takes for granted with assertions: what fails one is a broken frame, and not the end of
/// the conversation that it came in.
fn decode_block(frame: &mut FrameDecoder, block: &[u8]) -> bool {
    let decode = AssertUnwindSafe(|| frame.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1)).is_ok());
    catch_unwind(decode).unwrap_or(false)
}
