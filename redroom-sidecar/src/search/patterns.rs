//! What is searched for: the forms of each secret's value, compiled into two automata that number them alike.
//!
//! Knows values; not how a stream is read.

use std::sync::Arc;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::{contiguous, noncontiguous};
use aho_corasick::{Anchored, MatchKind, PatternID};

/// The secrets of a run. A pattern is one form of one secret's value.
pub(super) struct Patterns {
    /// By secret.
    names: Vec<Arc<str>>,
    /// By pattern: whose it is, and its length in bytes.
    forms: Vec<Form>,
    exact: Tracker,
    folded: Tracker,
}

struct Form {
    secret: usize,
    len: usize,
    writing: Writing,
}

/// How a form writes the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// In its own bytes: UTF-8, or whatever it has.
    Own,
    Utf16,
    Utf32,
    /// From its last character to its first.
    Reversed,
    /// With each letter of ASCII thirteen places further.
    Rot13,
}

impl Patterns {
    pub(super) fn new<V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (Arc<str>, V)>) -> Self {
        let mut names = Vec::new();
        let mut forms = Vec::new();
        let mut values = Vec::new();
        for (name, value) in secrets {
            for (writing, value) in variants(value.as_ref()) {
                forms.push(Form { secret: names.len(), len: value.len(), writing });
                values.push(value);
            }
            names.push(name);
        }
        let exact = Tracker::new(&values);
        values.iter_mut().for_each(|value| value.make_ascii_lowercase());
        Patterns { names, forms, exact, folded: Tracker::new(&values) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub(super) fn secrets(&self) -> usize {
        self.names.len()
    }

    pub(super) fn secret_of(&self, pattern: PatternID) -> usize {
        self.forms[pattern.as_usize()].secret
    }

    pub(super) fn len_of(&self, pattern: PatternID) -> usize {
        self.forms[pattern.as_usize()].len
    }

    pub(super) fn writing_of(&self, pattern: PatternID) -> Writing {
        self.forms[pattern.as_usize()].writing
    }

    pub(super) fn name(&self, secret: usize) -> &Arc<str> {
        &self.names[secret]
    }

    /// Tells `A` from `a`.
    pub(super) fn exact(&self) -> &Tracker {
        &self.exact
    }

    /// Wants bytes in lower case.
    pub(super) fn folded(&self) -> &Tracker {
        &self.folded
    }
}

/// The forms in which a value stands for itself: without white space around it and, where it has several lines, with
/// every kind of line end that terminals, shells and HTTP clients make of a line feed; as text in wider characters; and in
/// the two ways that a model needs no program for.
fn variants(value: &[u8]) -> Vec<(Writing, Vec<u8>)> {
    let value = value.trim_ascii();
    if value.is_empty() {
        return Vec::new();
    }
    let lines: Vec<&[u8]> =
        value.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let mut variants = vec![(Writing::Own, value.to_vec())];
    if lines.len() > 1 {
        for line_end in [&b"\n"[..], b"\r\n", b" ", b""] {
            add(&mut variants, (Writing::Own, lines.join(line_end)));
        }
    }
    // Programs that convert a text keep its lines.
    for line_end in [&b"\n"[..], b"\r\n"] {
        if let Ok(text) = std::str::from_utf8(&lines.join(line_end)) {
            wide(text).for_each(|form| add(&mut variants, form));
        }
    }
    let own: Vec<_> = variants.iter().filter(|(writing, _)| *writing == Writing::Own).cloned().collect();
    for (_, form) in own {
        let turned = [(Writing::Reversed, reversed(&form)), (Writing::Rot13, form.iter().map(rot13).collect())];
        // What reads the same either way is the value itself.
        turned
            .into_iter()
            .filter(|(_, turned)| !turned.eq_ignore_ascii_case(&form))
            .for_each(|it| add(&mut variants, it));
    }
    variants
}

fn reversed(value: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(value) {
        Ok(text) => text.chars().rev().collect::<String>().into_bytes(),
        Err(_) => value.iter().rev().copied().collect(),
    }
}

fn rot13(byte: &u8) -> u8 {
    match byte {
        b'A'..=b'M' | b'a'..=b'm' => byte + 13,
        b'N'..=b'Z' | b'n'..=b'z' => byte - 13,
        _ => *byte,
    }
}

fn add(variants: &mut Vec<(Writing, Vec<u8>)>, form: (Writing, Vec<u8>)) {
    if !variants.iter().any(|(_, known)| *known == form.1) {
        variants.push(form);
    }
}

/// The text in UTF-16 and UTF-32 of either byte order, without zeros at its ends: what is left of ASCII is the same in
/// both orders, so that one form finds either.
fn wide(text: &str) -> impl Iterator<Item = (Writing, Vec<u8>)> {
    let utf16 = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<_>>();
    let utf32 = |order: fn(u32) -> [u8; 4]| text.chars().map(u32::from).flat_map(order).collect::<Vec<_>>();
    let forms = [
        (Writing::Utf16, utf16(u16::to_le_bytes)),
        (Writing::Utf16, utf16(u16::to_be_bytes)),
        (Writing::Utf32, utf32(u32::to_le_bytes)),
        (Writing::Utf32, utf32(u32::to_be_bytes)),
    ];
    forms.into_iter().map(|(writing, bytes)| {
        let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(start, |last| last + 1);
        (writing, bytes[start..end].to_vec())
    })
}

/// An automaton that is walked by hand, a byte at a time.
pub(super) struct Tracker {
    automaton: contiguous::NFA,
    start: StateID,
    /// Whether a byte leads away from the start.
    first: [bool; 256],
}

impl Tracker {
    fn new(values: &[Vec<u8>]) -> Self {
        // Below the limit of 2^31 bytes that the crate names, building does not fail; values are held in memory already.
        let loose = noncontiguous::Builder::new()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(values)
            .expect("secrets stay below two gigabytes");
        let automaton =
            contiguous::Builder::new().build_from_noncontiguous(&loose).expect("secrets stay below two gigabytes");
        let start = automaton.start_state(Anchored::No).expect("unanchored search is the default");
        let first = std::array::from_fn(|byte| automaton.next_state(Anchored::No, start, byte as u8) != start);
        Tracker { automaton, start, first }
    }

    #[inline]
    pub(super) fn start(&self) -> StateID {
        self.start
    }

    #[inline]
    pub(super) fn next(&self, state: StateID, byte: u8) -> StateID {
        if state == self.start && !self.first[usize::from(byte)] {
            return state;
        }
        self.automaton.next_state(Anchored::No, state, byte)
    }

    #[inline]
    pub(super) fn is_match(&self, state: StateID) -> bool {
        self.automaton.is_match(state)
    }

    /// The patterns that end in a state for which [`Tracker::is_match`] holds: all of them, shorter ones too.
    pub(super) fn ends(&self, state: StateID) -> impl Iterator<Item = PatternID> + '_ {
        (0..self.automaton.match_len(state)).map(move |index| self.automaton.match_pattern(state, index))
    }
}
