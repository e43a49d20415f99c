//! Percent-encoding taken away, and `+` read as a space.

use super::lane::{Output, Step};
use super::probe::Symbol;

/// A `%` and its first digit under way. What turns out to be none is passed on as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Percent {
    held: Output,
}

impl Percent {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn step(&mut self, symbol: Symbol) -> Step {
        if self.is_idle() && symbol.byte != b'%' {
            return Step::Same;
        }
        let digit = char::from(symbol.byte).to_digit(16);
        let first = self.held.bytes().get(1).and_then(|&byte| char::from(byte).to_digit(16));
        let mut output = Output::default();
        match (self.held.len(), first, digit) {
            (1, _, Some(_)) => self.held.push(symbol),
            (2, Some(first), Some(second)) => {
                self.held = Output::default();
                output.push(Symbol { byte: (first << 4 | second) as u8, url: true });
            }
            _ => {
                output = std::mem::take(&mut self.held);
                match symbol.byte {
                    b'%' => self.held.push(symbol),
                    _ => output.push(symbol),
                }
            }
        }
        Step::Instead(output)
    }

    pub(super) fn finish(&mut self) -> Output {
        std::mem::take(&mut self.held)
    }
}

/// A form's `+`, unless it was percent-encoded.
pub(super) fn plus(symbol: Symbol) -> Step {
    match symbol {
        Symbol { byte: b'+', url: false } => Step::Instead(Output::of(Symbol { byte: b' ', url: true })),
        _ => Step::Same,
    }
}
