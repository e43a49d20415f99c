//! Armour is text that stands for a container: base64 or hexadecimal digits. `tar cz . | base64 | curl -d @-` is the
//! commonest way out.
//!
//! Whether text holds a secret itself is for the probes to see. Here the first bytes of containers are looked for in what
//! text would stand for, at every alignment; from there on it is decoded, whatever JSON and forms do to it on the way:
//! `\n`, `\/`, `\u002b`, `%2B` and these inside each other.

mod base64;
mod hex;

use super::container::{Chain, Container};
use super::layer::Search;
use super::source::Source;

/// How many decoded bytes are passed on at once.
const BATCH: usize = 512;

/// The first three bytes of what is looked for: gzip, ZIP, Zstandard; of what cannot be opened bzip2, xz, 7z, RAR, LZ4,
/// `openssl enc`; OpenPGP for a password, for keys of RSA, for one of a curve.
const STARTS: [u32; 15] = [
    0x1f_8b_08, 0x50_4b_03, 0x28_b5_2f, 0x42_5a_68, 0xfd_37_7a, 0x37_7a_bc, 0x52_61_72, 0x04_22_4d, 0x53_61_6c,
    0x8c_0d_04, 0xc3_0d_04, 0x85_01_0c, 0x85_01_8c, 0x85_02_0c, 0x84_5e_03,
];

/// The first two bytes of zlib; too few to be looked for but where text begins.
const ZLIB: [u32; 4] = [0x78_01, 0x78_5e, 0x78_9c, 0x78_da];

/// Text in which a container begins: what was decoded of it, and the bits that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beginning {
    bytes: [u8; 3],
    length: usize,
    bits: u32,
    count: u32,
}

impl Beginning {
    /// Of a number of so many bytes, and `count` bits after it.
    fn of(number: u32, length: usize, bits: u32, count: u32) -> Self {
        let [_, bytes @ ..] = (number << (8 * (3 - length))).to_be_bytes();
        Beginning { bytes, length, bits, count }
    }
}

/// What looks for armour of one kind.
trait Spotter: Default {
    const CONTAINER: Container;
    type Decoder: Decode;

    /// The next beginning, and how many bytes there are to its end.
    fn next(&mut self, text: &[u8]) -> Option<(usize, Beginning)>;
}

trait Decode {
    fn new(beginning: Beginning) -> Self;

    /// Whether its next byte is that behind a beginning which has just been seen.
    fn is_at(&self, beginning: Beginning) -> bool;

    /// Takes a byte of the text; `Err` if it is none of the armour.
    fn step(&mut self, byte: u8) -> Result<Option<u8>, End>;
}

/// The armour has come to its end.
struct End;

/// Armours of both kinds in a layer.
pub(super) struct Armours {
    base64: Armour<base64::Spotter>,
    hex: Armour<hex::Spotter>,
}

impl Armours {
    pub(super) fn new(chain: Chain, outermost: Option<u64>) -> Self {
        Armours { base64: Armour::new(chain, outermost), hex: Armour::new(chain, outermost) }
    }

    pub(super) fn feed(&mut self, text: &[u8], search: &mut Search<'_>) {
        self.base64.feed(text, search);
        self.hex.feed(text, search);
    }

    pub(super) fn finish(self, search: &mut Search<'_>) {
        self.base64.finish(search);
        self.hex.finish(search);
    }
}

struct Armour<S: Spotter> {
    /// `None`: nothing in it could be opened.
    chain: Option<Chain>,
    outermost: Option<u64>,
    position: u64,
    spotter: S,
    /// One for each alignment at most: what looks like a beginning at one does not hide what stands at another.
    open: Vec<(S::Decoder, Source)>,
}

impl<S: Spotter> Armour<S> {
    fn new(chain: Chain, outermost: Option<u64>) -> Self {
        let chain = chain.with(S::CONTAINER);
        Armour { chain, outermost, position: 0, spotter: S::default(), open: Vec::new() }
    }

    fn feed(&mut self, text: &[u8], search: &mut Search<'_>) {
        let Some(chain) = self.chain else { return };
        let mut rest = text;
        while let Some((length, beginning)) = self.spotter.next(rest) {
            let (before, after) = rest.split_at(length);
            self.decode(before, search);
            self.position += length as u64;
            self.begin(chain, beginning, search);
            rest = after;
        }
        self.decode(rest, search);
        self.position += rest.len() as u64;
    }

    fn begin(&mut self, chain: Chain, beginning: Beginning, search: &mut Search<'_>) {
        if self.open.iter().any(|(decoder, _)| decoder.is_at(beginning)) {
            return;
        }
        let outermost = Some(self.outermost.unwrap_or(self.position));
        // The first may be where it all begins; of others, many are there by chance.
        let mut source = match self.open.is_empty() {
            true => Source::new(chain, outermost),
            false => Source::amid(chain, outermost),
        };
        // Where nothing was opened so far, the alignment was chance.
        self.open.retain(|(_, source)| !source.is_idle());
        source.feed(&beginning.bytes[..beginning.length], search);
        self.open.push((S::Decoder::new(beginning), source));
    }

    fn decode(&mut self, text: &[u8], search: &mut Search<'_>) {
        for mut open in std::mem::take(&mut self.open) {
            match decode(&mut open, text, search) {
                Ok(()) => self.open.push(open),
                Err(End) => open.1.finish(search),
            }
        }
    }

    fn finish(self, search: &mut Search<'_>) {
        self.open.into_iter().for_each(|(_, source)| source.finish(search));
    }
}

fn decode(open: &mut (impl Decode, Source), text: &[u8], search: &mut Search<'_>) -> Result<(), End> {
    let (decoder, source) = open;
    let mut batch = [0; BATCH];
    let mut filled = 0;
    let mut end = Ok(());
    for &byte in text {
        match decoder.step(byte) {
            Ok(None) => {}
            Ok(Some(byte)) => {
                batch[filled] = byte;
                filled += 1;
                if filled == BATCH {
                    source.feed(&batch, search);
                    filled = 0;
                }
            }
            Err(End) => {
                end = Err(End);
                break;
            }
        }
    }
    source.feed(&batch[..filled], search);
    end
}

/// The escapes that armour may be written with.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After a backslash, or several.
    Backslash,
    /// In `\u002b`: so many digits, and what they are.
    Unicode(u8, u32),
    /// In `%2b`.
    Percent(u8, u32),
}

/// A byte of text, with the escapes taken away.
enum Character {
    Byte(u8),
    /// An escape goes on.
    Pending,
    /// A line end, or a tabulator.
    Blank,
    None,
}

impl Escape {
    fn step(&mut self, byte: u8) -> Character {
        let digit = char::from(byte).to_digit(16);
        let (next, character) = match (*self, byte, digit) {
            (Escape::None | Escape::Backslash, b'\\', _) => (Escape::Backslash, Character::Pending),
            (Escape::None, b'%', _) => (Escape::Percent(0, 0), Character::Pending),
            (Escape::None, byte, _) => (Escape::None, Character::Byte(byte)),
            (Escape::Backslash, b'n' | b'r' | b't', _) => (Escape::None, Character::Blank),
            (Escape::Backslash, b'u', _) => (Escape::Unicode(0, 0), Character::Pending),
            (Escape::Backslash, b'/' | b'x', _) => (Escape::None, Character::Byte(byte)),
            (Escape::Unicode(3, code), _, Some(digit)) => escaped(code << 4 | digit),
            (Escape::Percent(1, code), _, Some(digit)) => escaped(code << 4 | digit),
            (Escape::Unicode(count, code), _, Some(digit)) => {
                (Escape::Unicode(count + 1, code << 4 | digit), Character::Pending)
            }
            (Escape::Percent(count, code), _, Some(digit)) => {
                (Escape::Percent(count + 1, code << 4 | digit), Character::Pending)
            }
            (Escape::Backslash | Escape::Unicode(..) | Escape::Percent(..), ..) => (Escape::None, Character::None),
        };
        *self = next;
        character
    }
}

/// What was escaped may begin another escape.
fn escaped(code: u32) -> (Escape, Character) {
    match u8::try_from(code) {
        Ok(b'%') => (Escape::Percent(0, 0), Character::Pending),
        Ok(b'\\') => (Escape::Backslash, Character::Pending),
        Ok(byte) => (Escape::None, Character::Byte(byte)),
        Err(_) => (Escape::None, Character::None),
    }
}
