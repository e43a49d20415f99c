//! Hexadecimal dumps with an address in front of each line and perhaps text behind it: `xxd`, `hexdump -C`, `od -t x1z`.
//!
//! Without address and text a dump is digits and separators, which [`hex`](super::hex) reads.

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::patterns::Tracker;
use super::probe::Sink;

/// The fewest digits of an address: `od -A x` writes so many, the others more.
const ADDRESS: u8 = 6;

/// Follows the bytes of a dump from line to line.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Dump {
    state: StateID,
    place: Place,
}

/// Where in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its address, after so many digits.
    Address(u8),
    /// Between bytes.
    Between {
        /// `xxd` writes a colon after the address, and text after two spaces.
        colon: bool,
        spaces: Spaces,
    },
    /// After a byte's first digit.
    Half { colon: bool, digit: u8 },
    /// Behind the bytes: the next line goes on.
    Behind,
    /// In what is no dump.
    Elsewhere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spaces {
    /// Before the first byte: any number.
    Leading,
    None,
    One,
    More,
}

impl Dump {
    pub(super) fn new(start: StateID) -> Self {
        Dump { state: start, place: Place::Address(0) }
    }

    #[inline]
    pub(super) fn step(&mut self, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        match self.place {
            Place::Elsewhere if !begins(byte) => {}
            Place::Behind if byte != b'\n' => {}
            _ => self.step_inside(tracker, byte, sink),
        }
    }

    fn step_inside(&mut self, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        let digit = char::from(byte).to_digit(16).map(|digit| digit as u8);
        self.place = match (self.place, digit, byte) {
            (Place::Elsewhere, _, _) | (Place::Half { .. }, _, b'\n') => {
                self.state = tracker.start();
                Place::Address(0)
            }
            (_, _, b'\n') => Place::Address(0),
            (place, _, b'\r') => place,
            (Place::Address(count), Some(_), _) => Place::Address(count.saturating_add(1)),
            (Place::Address(ADDRESS..), _, b':') => Place::Between { colon: true, spaces: Spaces::Leading },
            (Place::Address(ADDRESS..), _, b' ') => Place::Between { colon: false, spaces: Spaces::Leading },
            (Place::Between { colon: true, spaces: Spaces::More }, _, _) => Place::Behind,
            (Place::Between { colon, .. }, Some(digit), _) => Place::Half { colon, digit },
            (Place::Between { colon, spaces }, _, b' ') => {
                let spaces = match spaces {
                    Spaces::Leading => Spaces::Leading,
                    Spaces::None => Spaces::One,
                    Spaces::One | Spaces::More => Spaces::More,
                };
                Place::Between { colon, spaces }
            }
            (Place::Between { colon: false, spaces: Spaces::More }, _, b'|' | b'>') => Place::Behind,
            (Place::Half { colon, digit: high }, Some(low), _) => {
                self.state = tracker.next(self.state, (high << 4 | low).to_ascii_lowercase());
                if tracker.is_match(self.state) {
                    tracker.ends(self.state).for_each(|pattern| sink.found(pattern, Encoding::Hex));
                }
                Place::Between { colon, spaces: Spaces::None }
            }
            _ => {
                self.state = tracker.start();
                if begins(byte) { Place::Address(0) } else { Place::Elsewhere }
            }
        };
        // With no match under way it does not matter what kind of line this is.
        if self.place == Place::Behind && self.state == tracker.start() {
            self.place = Place::Elsewhere;
        }
    }
}

/// Whether a dump can begin after it: a line, a string, the value of a form's field or of an assignment.
#[inline]
fn begins(byte: u8) -> bool {
    matches!(byte, b'\n' | b'"' | b'\'' | b'`' | b'=')
}
