//! Base64: three alignments of a secret among its neighbours, both alphabets, wrapped or not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::hex::nibble;

/// The letters of a value that do not depend on its neighbours, for each of the three alignments.
pub(super) fn patterns(value: &[u8]) -> [Vec<u8>; 3] {
    // How many letters hold bits of what stands before the value: none, 8 bits are 2 letters, 16 bits are 3.
    [(0, 0), (1, 2), (2, 3)].map(|(before, shared)| {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        let whole = bytes.len() * 8 / 6;
        STANDARD.encode(&bytes).into_bytes()[shared..whole].to_vec()
    })
}

/// Takes the letters out of what surrounds them, all in the standard alphabet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Letters {
    #[default]
    Run,
    /// A backslash that may be the beginning of a line end or of `\/` in a string.
    Backslash,
    /// `%` that may be the beginning of an escaped `+`, `/`, `=` or line end.
    Percent,
    PercentDigit(u8),
}

impl Letters {
    /// Takes a byte; `emit` gets letters of the standard alphabet, and a byte that is none where a run of letters ends.
    pub(super) fn take(&mut self, byte: u8, mut emit: impl FnMut(u8)) {
        match (std::mem::take(self), byte) {
            (Letters::Run, _) => letter(self, byte, emit),
            (Letters::Backslash, b'n' | b'r') => {}
            (Letters::Backslash, b'/') => emit(b'/'),
            (Letters::Backslash, _) => {
                emit(b'\\');
                letter(self, byte, emit);
            }
            (Letters::Percent, _) if nibble(byte).is_some() => *self = Letters::PercentDigit(byte),
            (Letters::PercentDigit(high), _) if nibble(byte).is_some() => {
                let escaped = nibble(high).unwrap_or_default() << 4 | nibble(byte).unwrap_or_default();
                letter(self, escaped, emit);
                // An escaped backslash or percent sign is not the beginning of another escape.
                *self = Letters::Run;
            }
            (Letters::Percent | Letters::PercentDigit(_), _) => {
                emit(b'%');
                letter(self, byte, emit);
            }
        }
    }
}

fn letter(state: &mut Letters, byte: u8, mut emit: impl FnMut(u8)) {
    match byte {
        b'-' => emit(b'+'),
        b'_' => emit(b'/'),
        b'\n' | b'\r' | b'\t' | b' ' => {}
        b'\\' => *state = Letters::Backslash,
        b'%' => *state = Letters::Percent,
        _ => emit(byte),
    }
}
