//! Undoes percent-encoding: `%41` is `A`, `+` is a space. What only looks like an escape stands for itself.

use super::hex::nibble;

/// Undoes percent-encoding byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Decoder {
    #[default]
    Text,
    Percent,
    Digit(u8),
}

impl Decoder {
    /// Takes a byte; `emit` gets what it comes to, and whether an escape was undone.
    pub(super) fn take(&mut self, byte: u8, mut emit: impl FnMut(u8, bool)) {
        match (*self, nibble(byte)) {
            (Decoder::Percent, Some(_)) => *self = Decoder::Digit(byte),
            (Decoder::Digit(high), Some(low)) => {
                *self = Decoder::Text;
                emit(nibble(high).unwrap_or_default() << 4 | low, true);
            }
            _ => {
                self.finish(&mut emit);
                match byte {
                    b'%' => *self = Decoder::Percent,
                    b'+' => emit(b' ', true),
                    _ => emit(byte, false),
                }
            }
        }
    }

    /// Gives out an escape that did not become one.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(u8, bool)) {
        match std::mem::take(self) {
            Decoder::Text => {}
            Decoder::Percent => emit(b'%', false),
            Decoder::Digit(digit) => {
                emit(b'%', false);
                emit(digit, false);
            }
        }
    }
}
