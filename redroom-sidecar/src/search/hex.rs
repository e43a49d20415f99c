//! Hexadecimal digits: `504c41`, `50:4C:41`, `0x50, 0x4c`, `\x50\x4c`, wrapped or not.

use aho_corasick::automaton::StateID;

use super::Encoding;
use super::patterns::Tracker;
use super::probe::Sink;

/// Decodes digits at both alignments and follows the bytes of each.
///
/// Digits are counted; the pairs of alignment 0 start at even counts, those of alignment 1 at odd ones. A separator stands
/// between pairs only: the alignment that is in the middle of a pair there starts anew. A line end may stand anywhere.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hex {
    states: [StateID; 2],
    /// The alignment that the next digit begins a pair of.
    next: u8,
    /// Whether the last digit may be the first of a pair: nothing but line ends has come since.
    paired: bool,
    digit: u8,
    before: Before,
}

/// The byte before, as far as it matters to an `x`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Zero,
    Backslash,
    Other,
}

#[derive(Clone, Copy)]
enum Class {
    Digit(u8),
    LineEnd,
    Separator,
    X,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => Class::Digit(digit - b'0'),
            digit @ b'a'..=b'f' => Class::Digit(digit - b'a' + 10),
            digit @ b'A'..=b'F' => Class::Digit(digit - b'A' + 10),
            b'\n' | b'\r' => Class::LineEnd,
            // What is a sign of percent-encoding or quoted-printable is found as that.
            b'%' | b'=' => Class::Other,
            b' ' | b'\t' | b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => Class::Separator,
            b'x' | b'X' => Class::X,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

impl Hex {
    pub(super) fn new(start: StateID) -> Self {
        Hex { states: [start; 2], next: 0, paired: false, digit: 0, before: Before::Other }
    }

    #[inline]
    pub(super) fn step(&mut self, tracker: &Tracker, byte: u8, sink: &mut impl Sink) {
        match CLASSES[usize::from(byte)] {
            Class::Digit(digit) => {
                let ending = self.next ^ 1;
                if self.paired {
                    let state = &mut self.states[usize::from(ending)];
                    *state = tracker.next(*state, (self.digit << 4 | digit).to_ascii_lowercase());
                    if tracker.is_match(*state) {
                        tracker.ends(*state).for_each(|pattern| sink.found(pattern, Encoding::Hex));
                    }
                }
                self.next = ending;
                self.paired = true;
                self.digit = digit;
                self.before = if digit == 0 { Before::Zero } else { Before::Other };
            }
            Class::LineEnd => self.before = Before::Other,
            Class::Separator => {
                self.separate(tracker);
                self.before = if byte == b'\\' { Before::Backslash } else { Before::Other };
            }
            Class::X => match self.before {
                Before::Zero => {
                    // That zero was no digit.
                    self.next ^= 1;
                    self.separate(tracker);
                    self.before = Before::Other;
                }
                Before::Backslash => self.before = Before::Other,
                Before::Other => *self = Hex::new(tracker.start()),
            },
            Class::Other => *self = Hex::new(tracker.start()),
        }
    }

    #[inline]
    fn separate(&mut self, tracker: &Tracker) {
        self.states[usize::from(self.next ^ 1)] = tracker.start();
        self.paired = false;
        self.digit = 0;
        if self.states[usize::from(self.next)] == tracker.start() {
            self.next = 0;
        }
    }
}
