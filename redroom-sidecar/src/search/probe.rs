//! A probe looks at the bytes of one lane: as text, as hexadecimal digits, as numbers and words, as base64 and base32.

use aho_corasick::PatternID;
use aho_corasick::automaton::StateID;

use super::Encoding;
use super::base32::{Alphabet, Base32};
use super::base64::Base64;
use super::dump::Dump;
use super::hex::Hex;
use super::numbers::Numbers;
use super::patterns::{Patterns, Writing};
use super::words::Words;

/// Where probes tell what they found. Called for every occurrence; the same one may be told by several lanes.
pub(super) trait Sink {
    fn found(&mut self, pattern: PatternID, encoding: Encoding);
}

/// A byte of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) byte: u8,
    /// Whether it was percent-encoded, or a `+` that stood for a space.
    pub(super) url: bool,
}

/// What has been seen of a lane so far.
#[derive(Clone)]
pub(super) struct Probe {
    exact: StateID,
    folded: StateID,
    /// How many symbols ago the last one with `url` was.
    since_url: usize,
    hex: Hex,
    dump: Dump,
    words: Words,
    numbers: Numbers,
    base64: Base64,
    base32: Base32,
    base32_hex: Base32,
}

impl Probe {
    pub(super) fn new(patterns: &Patterns) -> Self {
        let folded = patterns.folded().start();
        Probe {
            exact: patterns.exact().start(),
            folded,
            since_url: usize::MAX,
            hex: Hex::new(folded),
            dump: Dump::new(folded),
            words: Words::new(folded),
            numbers: Numbers::new(folded),
            base64: Base64::new(folded),
            base32: Base32::new(folded),
            base32_hex: Base32::new(folded),
        }
    }

    #[inline]
    pub(super) fn step(&mut self, patterns: &Patterns, symbol: Symbol, base64: bool, sink: &mut impl Sink) {
        self.since_url = if symbol.url { 0 } else { self.since_url.saturating_add(1) };
        self.exact = patterns.exact().next(self.exact, symbol.byte);
        self.folded = patterns.folded().next(self.folded, symbol.byte.to_ascii_lowercase());
        if patterns.folded().is_match(self.folded) {
            self.tell_text(patterns, sink);
        }
        self.hex.step(patterns.folded(), symbol.byte, sink);
        self.dump.step(patterns.folded(), symbol.byte, sink);
        self.words.step(patterns.folded(), symbol.byte, sink);
        self.numbers.step(patterns.folded(), symbol.byte, sink);
        self.base32.step(&Alphabet::STANDARD, patterns.folded(), symbol.byte, sink);
        self.base32_hex.step(&Alphabet::EXTENDED_HEX, patterns.folded(), symbol.byte, sink);
        if base64 {
            self.base64.step(patterns.folded(), symbol.byte, sink);
        }
    }

    #[cold]
    fn tell_text(&self, patterns: &Patterns, sink: &mut impl Sink) {
        for pattern in patterns.folded().ends(self.folded) {
            let same_case = || {
                patterns.exact().is_match(self.exact) && patterns.exact().ends(self.exact).any(|exact| exact == pattern)
            };
            let encoding = match patterns.writing_of(pattern) {
                _ if self.since_url < patterns.len_of(pattern) => Encoding::Url,
                Writing::Utf16 => Encoding::Utf16,
                Writing::Utf32 => Encoding::Utf32,
                Writing::Reversed => Encoding::Reversed,
                Writing::Rot13 => Encoding::Rot13,
                Writing::Own if same_case() => Encoding::Plain,
                Writing::Own => Encoding::CaseInsensitive,
            };
            sink.found(pattern, encoding);
        }
    }

    /// Whether this probe will tell the same as `other` of the same symbols from now on, `base64` apart if that is left out.
    pub(super) fn agrees_with(&self, other: &Probe, patterns: &Patterns, base64: bool) -> bool {
        self.exact == other.exact
            && self.folded == other.folded
            // At the start no match is under way that an earlier symbol could belong to.
            && (self.since_url == other.since_url || self.folded == patterns.folded().start())
            && self.hex == other.hex
            && self.dump == other.dump
            && self.words == other.words
            && self.numbers == other.numbers
            && self.base32 == other.base32
            && self.base32_hex == other.base32_hex
            && (!base64 || self.base64 == other.base64)
    }
}
