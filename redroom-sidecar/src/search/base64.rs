//! Base64 in either alphabet, padded or not, wrapped or not.

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::patterns::Tracker;
use super::probe::Sink;

/// Decodes characters at all four alignments and follows the bytes of each.
///
/// A byte lies in two neighbouring characters whatever the alignment, so that only the last character has to be known.
/// Line ends, and the indentation of the line after, are passed over.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Base64 {
    states: [StateID; 4],
    /// The alignment that the next character begins a group of.
    next: u8,
    /// Whether there is a last character.
    paired: bool,
    character: u8,
    indented: bool,
}

#[derive(Clone, Copy)]
enum Class {
    Character(u8),
    LineEnd,
    Blank,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            letter @ b'A'..=b'Z' => Class::Character(letter - b'A'),
            letter @ b'a'..=b'z' => Class::Character(letter - b'a' + 26),
            digit @ b'0'..=b'9' => Class::Character(digit - b'0' + 52),
            b'+' | b'-' => Class::Character(62),
            b'/' | b'_' => Class::Character(63),
            b'\n' | b'\r' => Class::LineEnd,
            b' ' | b'\t' => Class::Blank,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

impl Base64 {
    pub(super) fn new(start: StateID) -> Self {
        Base64 { states: [start; 4], next: 0, paired: false, character: 0, indented: false }
    }

    #[inline]
    pub(super) fn step(&mut self, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        match CLASSES[usize::from(byte)] {
            Class::Character(character) => {
                if self.paired {
                    let bits = u16::from(self.character) << 6 | u16::from(character);
                    for (alignments_ago, shift) in [(1, 4), (2, 2), (3, 0)] {
                        let state = &mut self.states[usize::from(self.next.wrapping_sub(alignments_ago) & 3)];
                        *state = tracker.next(*state, ((bits >> shift) as u8).to_ascii_lowercase());
                        if tracker.is_match(*state) {
                            tracker.ends(*state).for_each(|pattern| sink.found(pattern, Encoding::Base64));
                        }
                    }
                }
                self.next = (self.next + 1) & 3;
                self.paired = true;
                self.character = character;
                self.indented = false;
            }
            Class::LineEnd => self.indented = self.paired,
            Class::Blank if self.indented => {}
            Class::Blank | Class::Other => {
                if self.paired {
                    *self = Base64::new(tracker.start());
                }
            }
        }
    }
}
