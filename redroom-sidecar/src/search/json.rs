//! The escapes of JSON strings, taken away: `\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud83d\ude00`.

use super::lane::{Output, Step};
use super::probe::Symbol;

/// An escape under way. What turns out to be none is passed on as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Json {
    held: Output,
}

/// What a beginning of an escape is.
enum Escape {
    /// It goes on.
    Begun,
    /// It stands for this.
    Char(char),
    /// It goes wrong at its last byte.
    Broken,
}

impl Json {
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn step(&mut self, symbol: Symbol) -> Step {
        if self.is_idle() && symbol.byte != b'\\' {
            return Step::Same;
        }
        let mut output = Output::default();
        self.held.push(symbol);
        loop {
            match escape(self.held.bytes()) {
                Escape::Begun => break,
                Escape::Char(char) => {
                    let url = self.held.symbols().any(|held| held.url);
                    char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| output.push(Symbol { byte, url }));
                    self.held = Output::default();
                    break;
                }
                Escape::Broken => {
                    // What comes after may be the beginning of the next escape: the second half of a surrogate pair that
                    // is none, or the last byte.
                    let rest = match self.held.len() {
                        8.. => 6,
                        len => len - 1,
                    };
                    let held = std::mem::take(&mut self.held);
                    held.symbols().take(rest).for_each(|symbol| output.push(symbol));
                    let mut after = held.symbols().skip(rest);
                    if after.clone().next().is_none_or(|first| first.byte != b'\\') {
                        after.for_each(|symbol| output.push(symbol));
                        break;
                    }
                    after.by_ref().for_each(|symbol| self.held.push(symbol));
                }
            }
        }
        Step::Instead(output)
    }

    pub(super) fn finish(&mut self) -> Output {
        std::mem::take(&mut self.held)
    }
}

fn escape(held: &[u8]) -> Escape {
    match held {
        [b'\\'] => Escape::Begun,
        [b'\\', b'u', digits @ ..] => unicode(digits),
        [b'\\', letter] => match letter {
            b'"' | b'\\' | b'/' => Escape::Char(char::from(*letter)),
            b'b' => Escape::Char('\u{8}'),
            b'f' => Escape::Char('\u{c}'),
            b'n' => Escape::Char('\n'),
            b'r' => Escape::Char('\r'),
            b't' => Escape::Char('\t'),
            _ => Escape::Broken,
        },
        _ => Escape::Broken,
    }
}

/// What follows `\u`: four digits, and for the first half of a surrogate pair another escape of the second half.
fn unicode(rest: &[u8]) -> Escape {
    let Some(first) = rest.get(..4) else {
        return if rest.iter().all(u8::is_ascii_hexdigit) { Escape::Begun } else { Escape::Broken };
    };
    let Some(first) = code_unit(first) else { return Escape::Broken };
    let tail = &rest[4..];
    match first {
        0xd800..0xdc00 => {
            let prefix = &tail[..tail.len().min(2)];
            if !b"\\u".starts_with(prefix) {
                return Escape::Broken;
            }
            match tail.get(2..).unwrap_or_default() {
                digits @ [_, _, _, _] => match code_unit(digits) {
                    Some(second @ 0xdc00..0xe000) => {
                        let code = 0x10000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00);
                        char::from_u32(code).map_or(Escape::Broken, Escape::Char)
                    }
                    _ => Escape::Broken,
                },
                digits if digits.iter().all(u8::is_ascii_hexdigit) => Escape::Begun,
                _ => Escape::Broken,
            }
        }
        unit => char::from_u32(u32::from(unit)).map_or(Escape::Broken, Escape::Char),
    }
}

fn code_unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
}
