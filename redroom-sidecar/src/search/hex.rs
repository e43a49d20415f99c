//! Hexadecimal: digits of either case, with or without separators between the pairs, wrapped or not.

/// The pattern of a value in the hex lane: its digits in lower case.
pub(super) fn pattern(value: &[u8]) -> Vec<u8> {
    value
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .map(|nibble| b"0123456789abcdef"[usize::from(nibble)])
        .collect()
}

/// The value of a digit.
pub(super) fn nibble(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Takes the digits out of what surrounds them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Digits {
    #[default]
    Run,
    /// A `0` that may be the beginning of `0x`.
    Zero,
    /// A backslash that may be the beginning of `\x` or of a line end in a string.
    Backslash,
}

impl Digits {
    /// Takes a byte; `emit` gets digits in lower case, and a byte that is none where a run of digits ends.
    pub(super) fn take(&mut self, byte: u8, mut emit: impl FnMut(u8)) {
        match (std::mem::take(self), byte) {
            (Digits::Zero, b'x' | b'X') | (Digits::Backslash, b'x' | b'X' | b'n' | b'r' | b't') => return,
            (Digits::Zero, _) => emit(b'0'),
            (Digits::Backslash, _) => emit(b'\\'),
            (Digits::Run, _) => {}
        }
        match byte {
            b'0' => *self = Digits::Zero,
            b'\\' => *self = Digits::Backslash,
            b' ' | b'\n' | b'\r' | b'\t' | b':' | b'-' | b',' => {}
            byte if nibble(byte).is_some() => emit(byte.to_ascii_lowercase()),
            _ => emit(b'\\'),
        }
    }

    /// Gives out a digit that is still held.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(u8)) {
        if let Digits::Zero = std::mem::take(self) {
            emit(b'0');
        }
    }
}
