//! Undoes the escapes of JSON strings: `\n`, `\"`, `\u0041`. What only looks like an escape stands for itself.

use super::hex::nibble;

/// Undoes JSON escapes byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decoder {
    state: State,
    /// The first half of a character outside the basic plane.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Text,
    Backslash,
    Unicode {
        digits: u8,
        value: u16,
    },
}

impl Decoder {
    /// Takes a byte; `emit` gets what it comes to, and whether an escape was undone.
    pub(super) fn take(&mut self, byte: u8, mut emit: impl FnMut(u8, bool)) {
        match self.state {
            State::Text if byte == b'\\' => self.state = State::Backslash,
            State::Text => emit(byte, false),
            State::Backslash => {
                self.state = State::Text;
                match byte {
                    b'n' => emit(b'\n', true),
                    b't' => emit(b'\t', true),
                    b'r' => emit(b'\r', true),
                    b'b' => emit(8, true),
                    b'f' => emit(12, true),
                    b'"' | b'\\' | b'/' => emit(byte, true),
                    b'u' => self.state = State::Unicode { digits: 0, value: 0 },
                    _ => {
                        emit(b'\\', false);
                        emit(byte, false);
                    }
                }
            }
            State::Unicode { digits, value } => match nibble(byte) {
                Some(digit) if digits == 3 => {
                    self.state = State::Text;
                    self.unit(value << 4 | u16::from(digit), emit);
                }
                Some(digit) => self.state = State::Unicode { digits: digits + 1, value: value << 4 | u16::from(digit) },
                None => {
                    self.finish(&mut emit);
                    self.take(byte, emit);
                }
            },
        }
    }

    /// Gives out an escape that did not become one.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(u8, bool)) {
        match std::mem::take(&mut self.state) {
            State::Text => {}
            State::Backslash => emit(b'\\', false),
            State::Unicode { digits, value } => {
                emit(b'\\', false);
                emit(b'u', false);
                for digit in (0..digits).rev() {
                    emit(b"0123456789abcdef"[usize::from(value >> (4 * digit) & 0xf)], false);
                }
            }
        }
    }

    fn unit(&mut self, unit: u16, mut emit: impl FnMut(u8, bool)) {
        let pair = self.high.take().map_or([unit, 0], |high| [high, unit]);
        let units = if pair[1] == 0 { &pair[..1] } else { &pair[..] };
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        for character in char::decode_utf16(units.iter().copied()) {
            let mut buffer = [0; 4];
            for byte in character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut buffer).bytes() {
                emit(byte, true);
            }
        }
    }
}
