//! Hexadecimal digits: `1f8b08`, `1f:8B:08`, `0x1f, 0x8b`, `\x1f\x8b`, wrapped or not.

use super::{Beginning, Character, Decode, End, Escape, STARTS, ZLIB};
use crate::search::container::Container;

/// What a byte is to a hexadecimal number, beside a digit.
const SEPARATOR: u8 = 16;
const X: u8 = 17;
const OTHER: u8 = 18;

const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            b'x' | b'X' => X,
            b'\n' | b'\r' | b':' | b' ' | b'\t' | b'-' | b',' | b';' | b'.' | b'_' | b'\\' | b'"' | b'\'' => SEPARATOR,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Which number of two digits can be the last of a beginning.
const LAST: [bool; 256] = {
    let mut last = [false; 256];
    let mut start = 0;
    while start < STARTS.len() {
        last[(STARTS[start] & 0xff) as usize] = true;
        start += 1;
    }
    last
};

/// The last digits of a text.
#[derive(Default)]
pub(super) struct Spotter {
    window: u32,
    /// How many of them there were since something else, or a separator.
    run: u32,
    /// Whether the byte before was a zero: `0x` may follow.
    after_zero: bool,
}

impl super::Spotter for Spotter {
    const CONTAINER: Container = Container::Hex;
    type Decoder = Decoder;

    #[inline]
    fn next(&mut self, text: &[u8]) -> Option<(usize, Beginning)> {
        for (index, &byte) in text.iter().enumerate() {
            let after_zero = std::mem::replace(&mut self.after_zero, byte == b'0');
            match CLASSES[usize::from(byte)] {
                OTHER => {
                    self.window = 0;
                    self.run = 0;
                }
                X if after_zero => {
                    // That zero was no digit.
                    self.window >>= 4;
                    self.run = 0;
                }
                SEPARATOR | X => self.run = 0,
                digit => {
                    self.window = self.window << 4 | u32::from(digit);
                    self.run += 1;
                    if (LAST[(self.window & 0xff) as usize] || matches!(self.run, 2 | 4))
                        && let Some(beginning) = self.beginning()
                    {
                        return Some((index + 1, beginning));
                    }
                }
            }
        }
        None
    }
}

impl Spotter {
    fn beginning(&self) -> Option<Beginning> {
        let (two, three) = (self.window & 0xffff, self.window & 0xff_ffff);
        if matches!(self.run, 2 | 4) && ZLIB.contains(&two) {
            return Some(Beginning::of(two, 2, 0, 0));
        }
        STARTS.contains(&three).then(|| Beginning::of(three, 3, 0, 0))
    }
}

pub(super) struct Decoder {
    escape: Escape,
    high: Option<u8>,
}

impl Decode for Decoder {
    fn new(_: Beginning) -> Self {
        Decoder { escape: Escape::None, high: None }
    }

    fn is_at(&self, _: Beginning) -> bool {
        self.high.is_none()
    }

    #[inline]
    fn step(&mut self, byte: u8) -> Result<Option<u8>, End> {
        let byte = match self.escape.step(byte) {
            Character::Byte(byte) => byte,
            Character::Pending | Character::Blank => return Ok(None),
            Character::None => return Err(End),
        };
        match (CLASSES[usize::from(byte)], self.high) {
            (SEPARATOR, _) => Ok(None),
            // `0x`, or `\x`.
            (X, Some(0) | None) => {
                self.high = None;
                Ok(None)
            }
            (X | OTHER, _) => Err(End),
            (digit, None) => {
                self.high = Some(digit);
                Ok(None)
            }
            (digit, Some(high)) => {
                self.high = None;
                Ok(Some(high << 4 | digit))
            }
        }
    }
}
