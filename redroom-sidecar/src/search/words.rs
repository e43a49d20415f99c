//! Dumps in words of two or four bytes, the lowest first: `hexdump` and `od -x` (`4c50 5441`), `od` (`046120 052101`).

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::numbers::{ADDRESS, Place};
use super::patterns::Tracker;
use super::probe::Sink;

/// Follows the bytes of words from line to line; an address in front of a line is none of them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// After the words before.
    state: StateID,
    /// The word under way, in both notations; `None` where it is none in octal.
    hexadecimal: u32,
    octal: Option<u16>,
    place: Place,
}

impl Words {
    pub(super) fn new(start: StateID) -> Self {
        Words { state: start, hexadecimal: 0, octal: Some(0), place: Place::Number(0) }
    }

    #[inline]
    pub(super) fn step(&mut self, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        match self.place {
            Place::Elsewhere if byte.is_ascii_alphanumeric() => {}
            Place::Elsewhere => self.place = Place::Number(0),
            Place::Number(digits) => self.step_inside(tracker, byte, digits, sink),
        }
    }

    #[inline]
    fn step_inside(&mut self, tracker: &Tracker, byte: u8, digits: u8, sink: &mut impl Sink) {
        match (char::from(byte).to_digit(16), byte) {
            (Some(digit), _) => {
                self.place = Place::Number(digits.saturating_add(1));
                self.hexadecimal = self.hexadecimal << 4 | digit;
                let octal =
                    |word: u16| u16::try_from(digit).ok().filter(|digit| *digit < 8)?.checked_add(word.checked_mul(8)?);
                self.octal = self.octal.and_then(octal);
                self.with_word(tracker, |state, encoding| {
                    if tracker.is_match(state) {
                        tracker.ends(state).for_each(|pattern| sink.found(pattern, encoding));
                    }
                });
            }
            (None, b'a'..=b'z' | b'A'..=b'Z') => {
                *self = Words { place: Place::Elsewhere, ..Words::new(tracker.start()) };
            }
            (None, b' ' | b'\t' | b'\n' | b'\r') if digits > 0 => {
                let state = if digits == ADDRESS { Some(self.state) } else { self.with_word(tracker, |_, _| ()) };
                *self = Words::new(tracker.start());
                self.state = state.unwrap_or_else(|| tracker.start());
            }
            (None, b' ' | b'\t' | b'\n' | b'\r') => {}
            _ => *self = Words::new(tracker.start()),
        }
    }

    /// The state after each byte of the word under way, and behind it; `None` where it is no word.
    fn with_word(&self, tracker: &Tracker, mut after: impl FnMut(StateID, Encoding)) -> Option<StateID> {
        let (word, bytes, encoding) = match (self.place, self.octal) {
            (Place::Number(4), _) => (self.hexadecimal, 2, Encoding::Hex),
            (Place::Number(8), _) => (self.hexadecimal, 4, Encoding::Hex),
            (Place::Number(6), Some(octal)) => (octal.into(), 2, Encoding::Octal),
            _ => return None,
        };
        let mut state = self.state;
        for byte in &word.to_le_bytes()[..bytes] {
            state = tracker.next(state, byte.to_ascii_lowercase());
            after(state, encoding);
        }
        Some(state)
    }
}
