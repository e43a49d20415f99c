//! The character references of HTML and XML, taken away: `&#80;`, `&#x50;`, `&amp;`.

use super::lane::{Output, Step};
use super::probe::Symbol;

/// The longest that is understood: `&#x0010ffff`.
const LONGEST: usize = 11;

/// A `&` and what came after it. What turns out to be none is passed on as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entities {
    held: Output,
}

impl Entities {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn step(&mut self, symbol: Symbol) -> Step {
        if self.is_idle() && symbol.byte != b'&' {
            return Step::Same;
        }
        let mut output = Output::default();
        let referred = if symbol.byte == b';' { character(self.held.bytes()) } else { None };
        if let Some(character) = referred {
            let url = symbol.url || self.held.symbols().any(|held| held.url);
            self.held = Output::default();
            character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| output.push(Symbol { byte, url }));
        } else if symbol.byte == b'&' {
            output = std::mem::take(&mut self.held);
            self.held.push(symbol);
        } else if self.held.len() < LONGEST && (symbol.byte == b'#' || symbol.byte.is_ascii_alphanumeric()) {
            self.held.push(symbol);
        } else {
            output = std::mem::take(&mut self.held);
            output.push(symbol);
        }
        Step::Instead(output)
    }

    pub(super) fn finish(&mut self) -> Output {
        std::mem::take(&mut self.held)
    }
}

/// What a reference stands for, its `;` left out. Names are those that encoders write.
fn character(reference: &[u8]) -> Option<char> {
    match std::str::from_utf8(reference).ok()? {
        "&amp" => Some('&'),
        "&lt" => Some('<'),
        "&gt" => Some('>'),
        "&quot" => Some('"'),
        "&apos" => Some('\''),
        "&nbsp" => Some('\u{a0}'),
        numbered => {
            let number = numbered.strip_prefix("&#")?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}
