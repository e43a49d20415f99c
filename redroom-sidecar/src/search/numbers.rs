//! Bytes as numbers of their own: `80, 76, 65`, as programs show lists and `od -t u1` a file; `\120\114\101`, as `od -b`
//! and strings of C do.

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::patterns::Tracker;
use super::probe::Sink;

/// The fewest digits of an address in front of a line of `od`. It stands between the bytes, and is none of them.
pub(super) const ADDRESS: u8 = 7;

/// Reads numbers in both notations. One begins behind what is neither letter nor digit.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Numbers {
    decimal: Notation,
    octal: Notation,
    place: Place,
}

/// Where in a text of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind so many digits of a number.
    Number(u8),
    /// In a word.
    Elsewhere,
}

#[derive(Clone, PartialEq, Eq)]
struct Notation {
    /// After the numbers before.
    state: StateID,
    /// What the number under way says; `None` where it is no byte any more.
    value: Option<u8>,
}

impl Notation {
    fn new(start: StateID) -> Self {
        Notation { state: start, value: Some(0) }
    }

    #[inline]
    fn digit(&mut self, radix: u8, digit: u8) {
        self.value =
            self.value.filter(|_| digit < radix).and_then(|value| value.checked_mul(radix)?.checked_add(digit));
    }

    fn with_number(&self, tracker: &Tracker) -> Option<StateID> {
        self.value.map(|value| tracker.next(self.state, value.to_ascii_lowercase()))
    }

    /// A byte is complete with any of its digits: the next one, if it comes, makes another byte of it.
    fn tell(&self, tracker: &Tracker, encoding: Encoding, sink: &mut impl Sink) {
        if let Some(state) = self.with_number(tracker).filter(|state| tracker.is_match(*state)) {
            tracker.ends(state).for_each(|pattern| sink.found(pattern, encoding));
        }
    }

    fn end(&mut self, tracker: &Tracker, digits: u8) {
        self.state = match digits {
            0 | ADDRESS.. => self.state,
            _ => self.with_number(tracker).unwrap_or_else(|| tracker.start()),
        };
        self.value = Some(0);
    }
}

impl Numbers {
    pub(super) fn new(start: StateID) -> Self {
        Numbers { decimal: Notation::new(start), octal: Notation::new(start), place: Place::Number(0) }
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
        match byte {
            b'0'..=b'9' => {
                self.place = Place::Number(digits.saturating_add(1));
                self.decimal.digit(10, byte - b'0');
                self.octal.digit(8, byte - b'0');
                self.decimal.tell(tracker, Encoding::Decimal, sink);
                self.octal.tell(tracker, Encoding::Octal, sink);
            }
            // As Python marks the notation: that zero was no number.
            b'o' | b'O' if digits == 1 && self.octal.value == Some(0) => self.place = Place::Number(0),
            b'a'..=b'z' | b'A'..=b'Z' => *self = Numbers { place: Place::Elsewhere, ..Numbers::new(tracker.start()) },
            _ if digits == 0 && self.decimal.state == tracker.start() && self.octal.state == tracker.start() => {}
            b' '
            | b'\t'
            | b'\n'
            | b'\r'
            | b'!'
            | b'"'
            | b'$'
            | b'&'..=b'/'
            | b':'..=b'<'
            | b'>'..=b'@'
            | b'['..=b'`'
            | b'{'..=b'~' => {
                self.decimal.end(tracker, digits);
                self.octal.end(tracker, digits);
                self.place = Place::Number(0);
            }
            // What is a sign of another escape is found as that; and bytes that are no text.
            _ => *self = Numbers::new(tracker.start()),
        }
    }
}
