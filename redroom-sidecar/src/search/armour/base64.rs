//! Base64 in either alphabet, wrapped or not.

use super::{Beginning, Character, Decode, End, Escape, STARTS, ZLIB};
use crate::search::container::Container;

/// What a byte is to base64, beside a character.
const BLANK: u8 = 64;
const OTHER: u8 = 65;

const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            letter @ b'A'..=b'Z' => letter - b'A',
            letter @ b'a'..=b'z' => letter - b'a' + 26,
            digit @ b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' => BLANK,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Which last two characters can be the last of a beginning.
const LAST: [bool; 1 << 12] = {
    let mut last = [false; 1 << 12];
    let mut start = 0;
    while start < STARTS.len() {
        let mut bits = 0;
        while bits < 16 {
            last[(STARTS[start] & 0xfff) as usize] = true;
            last[((STARTS[start] << 2 | bits & 3) & 0xfff) as usize] = true;
            last[((STARTS[start] << 4 | bits) & 0xfff) as usize] = true;
            bits += 1;
        }
        start += 1;
    }
    last
};

/// The last characters of a text.
#[derive(Default)]
pub(super) struct Spotter {
    window: u32,
    /// How many of them there were since something else, or a `/`, which may be a part of a path.
    run: u32,
}

impl super::Spotter for Spotter {
    const CONTAINER: Container = Container::Base64;
    type Decoder = Decoder;

    #[inline]
    fn next(&mut self, text: &[u8]) -> Option<(usize, Beginning)> {
        for (index, &byte) in text.iter().enumerate() {
            let class = CLASSES[usize::from(byte)];
            if class < BLANK {
                self.window = self.window << 6 | u32::from(class);
                self.run += 1;
                if (LAST[(self.window & 0xfff) as usize] || self.run == 3)
                    && let Some(beginning) = self.beginning()
                {
                    return Some((index + 1, beginning));
                }
                if byte == b'/' {
                    self.run = 0;
                }
            } else if class == OTHER {
                self.window = 0;
                self.run = 0;
            }
        }
        None
    }
}

impl Spotter {
    fn beginning(&self) -> Option<Beginning> {
        if self.run == 3 {
            let number = self.window >> 2 & 0xffff;
            if ZLIB.contains(&number) {
                return Some(Beginning::of(number, 2, self.window & 3, 2));
            }
        }
        [0, 2, 4].into_iter().find_map(|count| {
            let number = self.window >> count & 0xff_ffff;
            STARTS.contains(&number).then(|| Beginning::of(number, 3, self.window & ((1 << count) - 1), count))
        })
    }
}

pub(super) struct Decoder {
    escape: Escape,
    /// After a line end, where the next line may be indented.
    at_line_start: bool,
    bits: u32,
    count: u32,
}

impl Decode for Decoder {
    fn new(beginning: Beginning) -> Self {
        Decoder { escape: Escape::None, at_line_start: false, bits: beginning.bits, count: beginning.count }
    }

    fn is_at(&self, beginning: Beginning) -> bool {
        self.count == beginning.count
    }

    #[inline]
    fn step(&mut self, byte: u8) -> Result<Option<u8>, End> {
        let byte = match self.escape.step(byte) {
            Character::Byte(byte) => byte,
            Character::Pending => return Ok(None),
            Character::Blank => b'\n',
            Character::None => return Err(End),
        };
        match CLASSES[usize::from(byte)] {
            OTHER if self.at_line_start && matches!(byte, b' ' | b'\t') => Ok(None),
            OTHER => Err(End),
            BLANK => {
                self.at_line_start = true;
                Ok(None)
            }
            character => {
                self.at_line_start = false;
                self.bits = self.bits << 6 | u32::from(character);
                self.count += 6;
                if self.count < 8 {
                    return Ok(None);
                }
                self.count -= 8;
                Ok(Some((self.bits >> self.count) as u8))
            }
        }
    }
}
