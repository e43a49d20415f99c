//! Base32 in the alphabets of RFC 4648, in either letter case, padded or not, wrapped or not: what is used where letter case
//! gets lost, as in DNS names.

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::patterns::Tracker;
use super::probe::Sink;

/// Decodes characters at all eight alignments and follows the bytes of each.
///
/// A byte lies in three neighbouring characters at most, so that only these have to be known. Line ends, and the
/// indentation of the line after, are passed over.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Base32 {
    states: [StateID; 8],
    /// The alignment that the next character begins a group of.
    next: u8,
    /// The last three characters.
    characters: u16,
    /// How many of them there are.
    known: u8,
    indented: bool,
}

#[derive(Clone, Copy)]
enum Class {
    Character(u8),
    LineEnd,
    Blank,
    Other,
}

/// What each byte stands for.
pub(super) struct Alphabet([Class; 256]);

impl Alphabet {
    /// `A` to `Z`, `2` to `7`.
    pub(super) const STANDARD: Alphabet = Alphabet::new(b"abcdefghijklmnopqrstuvwxyz234567");
    /// The one that keeps the order: `0` to `9`, `A` to `V`.
    pub(super) const EXTENDED_HEX: Alphabet = Alphabet::new(b"0123456789abcdefghijklmnopqrstuv");

    const fn new(characters: &[u8; 32]) -> Self {
        let mut classes = [Class::Other; 256];
        let mut value = 0;
        while value < 32 {
            classes[characters[value] as usize] = Class::Character(value as u8);
            classes[characters[value].to_ascii_uppercase() as usize] = Class::Character(value as u8);
            value += 1;
        }
        classes[b'\n' as usize] = Class::LineEnd;
        classes[b'\r' as usize] = Class::LineEnd;
        classes[b' ' as usize] = Class::Blank;
        classes[b'\t' as usize] = Class::Blank;
        Alphabet(classes)
    }
}

/// The bytes of a group of eight characters: after how many more characters than the first each is complete, how many bits
/// of the last one belong to the next, and over how many it lies.
const BYTES: [(u8, u8, u8); 5] = [(1, 2, 2), (3, 4, 3), (4, 1, 2), (6, 3, 3), (7, 0, 2)];

impl Base32 {
    pub(super) fn new(start: StateID) -> Self {
        Base32 { states: [start; 8], next: 0, characters: 0, known: 0, indented: false }
    }

    #[inline]
    pub(super) fn step(&mut self, alphabet: &Alphabet, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        match alphabet.0[usize::from(byte)] {
            Class::Character(character) => {
                self.characters = self.characters << 5 & 0x7fff | u16::from(character);
                self.known = (self.known + 1).min(3);
                for (characters_ago, spare, width) in BYTES {
                    if width <= self.known {
                        let state = &mut self.states[usize::from(self.next.wrapping_sub(characters_ago) & 7)];
                        *state = tracker.next(*state, ((self.characters >> spare) as u8).to_ascii_lowercase());
                        if tracker.is_match(*state) {
                            tracker.ends(*state).for_each(|pattern| sink.found(pattern, Encoding::Base32));
                        }
                    }
                }
                self.next = (self.next + 1) & 7;
                self.indented = false;
            }
            Class::LineEnd => self.indented = self.known > 0,
            Class::Blank if self.indented => {}
            Class::Blank | Class::Other => {
                if self.known > 0 {
                    *self = Base32::new(tracker.start());
                }
            }
        }
    }
}
