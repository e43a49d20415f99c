//! Quoted-printable taken away: `=50`, and the `=` with which a line goes on in the next.

use super::lane::{Output, Step};
use super::probe::Symbol;

/// A `=` and what came after it. What turns out to be none is passed on as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quoted {
    held: Output,
}

impl Quoted {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn step(&mut self, symbol: Symbol) -> Step {
        if self.is_idle() && symbol.byte != b'=' {
            return Step::Same;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut output = Output::default();
        match (self.held.bytes(), symbol.byte) {
            ([], _) | ([b'='], b'\r') => self.held.push(symbol),
            ([b'='], b'\n') | ([b'=', b'\r'], b'\n') => self.held = Output::default(),
            ([b'='], byte) if digit(byte).is_some() => self.held.push(symbol),
            (&[b'=', first], second) if let (Some(first), Some(second)) = (digit(first), digit(second)) => {
                let url = symbol.url || self.held.symbols().any(|held| held.url);
                self.held = Output::default();
                output.push(Symbol { byte: (first << 4 | second) as u8, url });
            }
            (_, byte) => {
                output = std::mem::take(&mut self.held);
                match byte {
                    b'=' => self.held.push(symbol),
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
