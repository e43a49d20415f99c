//! The lanes of a stream: the bytes as they are, and what is left of them when the escapes of a transport are taken away.
//!
//! Lanes form a tree; each reads what its parent gives. As long as a lane gives what its parent gives, and has seen what
//! matters of it, the two share one probe. So a byte without escapes around it costs one probe's step, not one per lane.

use super::entities::Entities;
use super::json::Json;
use super::patterns::Patterns;
use super::percent::{Percent, plus};
use super::probe::{Probe, Sink, Symbol};
use super::quoted::Quoted;

/// What a decoder makes of a symbol.
pub(super) enum Step {
    /// The same, with nothing held back before or after.
    Same,
    /// These instead, or nothing yet.
    Instead(Output),
}

/// A few symbols. The longest is an escaped surrogate pair that breaks off, and what broke it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    bytes: [u8; Output::CAPACITY],
    url: u16,
    len: u8,
}

impl Output {
    const CAPACITY: usize = 16;

    pub(super) fn of(symbol: Symbol) -> Self {
        let mut output = Output::default();
        output.push(symbol);
        output
    }

    pub(super) fn push(&mut self, symbol: Symbol) {
        self.bytes[self.len()] = symbol.byte;
        self.url |= u16::from(symbol.url) << self.len;
        self.len += 1;
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + Clone + '_ {
        self.bytes().iter().enumerate().map(|(index, &byte)| Symbol { byte, url: self.url >> index & 1 == 1 })
    }
}

#[derive(Clone)]
enum Decoder {
    Nothing,
    Json(Json),
    Percent(Percent),
    Plus,
    Quoted(Quoted),
    Entities(Entities),
}

impl Decoder {
    fn step(&mut self, symbol: Symbol) -> Step {
        match self {
            Decoder::Nothing => Step::Same,
            Decoder::Json(json) => json.step(symbol),
            Decoder::Percent(percent) => percent.step(symbol),
            Decoder::Plus => plus(symbol),
            Decoder::Quoted(quoted) => quoted.step(symbol),
            Decoder::Entities(entities) => entities.step(symbol),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Decoder::Nothing | Decoder::Plus => true,
            Decoder::Json(json) => json.is_idle(),
            Decoder::Percent(percent) => percent.is_idle(),
            Decoder::Quoted(quoted) => quoted.is_idle(),
            Decoder::Entities(entities) => entities.is_idle(),
        }
    }

    fn finish(&mut self) -> Output {
        match self {
            Decoder::Nothing | Decoder::Plus => Output::default(),
            Decoder::Json(json) => json.finish(),
            Decoder::Percent(percent) => percent.finish(),
            Decoder::Quoted(quoted) => quoted.finish(),
            Decoder::Entities(entities) => entities.finish(),
        }
    }
}

/// What a lane takes away.
#[derive(Clone, Copy)]
enum Transport {
    Nothing,
    Json,
    Percent,
    Plus,
    Quoted,
    Entities,
}

/// The tree: each lane's transport and its parent, which stands before it. The first is the stream itself.
const TREE: [(Transport, usize); 16] = [
    (Transport::Nothing, 0),
    // JSON inside JSON inside JSON: a tool's input in a model's answer that quotes a document.
    (Transport::Json, 0),
    (Transport::Json, 1),
    (Transport::Json, 2),
    // URLs inside JSON.
    (Transport::Percent, 1),
    (Transport::Plus, 4),
    // URLs and forms; URLs inside URLs.
    (Transport::Percent, 0),
    (Transport::Plus, 6),
    (Transport::Percent, 6),
    (Transport::Plus, 8),
    // JSON inside URLs and forms.
    (Transport::Json, 6),
    (Transport::Json, 7),
    (Transport::Json, 11),
    // Mail.
    (Transport::Quoted, 0),
    // HTML and XML, by themselves and in JSON.
    (Transport::Entities, 0),
    (Transport::Entities, 1),
];

/// Children of each lane, as bits.
const CHILDREN: [u16; TREE.len()] = {
    let mut children = [0; TREE.len()];
    let mut lane = 1;
    while lane < TREE.len() {
        assert!(TREE[lane].1 < lane, "a parent stands before its children");
        children[TREE[lane].1] |= 1 << lane;
        lane += 1;
    }
    children
};

/// Lanes in which a `+` was read as a space. What is left there is no base64; the lane above still has it.
const WITHOUT_BASE64: u16 = {
    let mut lanes = 0;
    let mut lane = 1;
    while lane < TREE.len() {
        if matches!(TREE[lane].0, Transport::Plus) || lanes >> TREE[lane].1 & 1 == 1 {
            lanes |= 1 << lane;
        }
        lane += 1;
    }
    lanes
};

/// All lanes of a stream.
pub(super) struct Lanes {
    decoders: [Decoder; TREE.len()],
    /// Read only where `parted` has the lane's bit; the others use their parent's.
    probes: [Probe; TREE.len()],
    /// The lanes with a probe of their own, as bits. Always the first.
    parted: u16,
    /// Whether no decoder holds anything back.
    idle: bool,
}

impl Lanes {
    pub(super) fn new(patterns: &Patterns) -> Self {
        let probes = std::array::from_fn(|_| Probe::new(patterns));
        let decoders = TREE.map(|(transport, _)| match transport {
            Transport::Nothing => Decoder::Nothing,
            Transport::Json => Decoder::Json(Json::default()),
            Transport::Percent => Decoder::Percent(Percent::default()),
            Transport::Plus => Decoder::Plus,
            Transport::Quoted => Decoder::Quoted(Quoted::default()),
            Transport::Entities => Decoder::Entities(Entities::default()),
        });
        Lanes { decoders, probes, parted: 1, idle: true }
    }

    #[inline]
    pub(super) fn step(&mut self, patterns: &Patterns, byte: u8, sink: &mut impl Sink) {
        let symbol = Symbol { byte, url: false };
        if !self.idle || matches!(byte, b'\\' | b'%' | b'+' | b'=' | b'&') {
            self.give(0, symbol, patterns, sink);
            self.idle = self.decoders.iter().all(Decoder::is_idle);
            self.unite(patterns);
        } else if self.parted == 1 {
            self.probes[0].step(patterns, symbol, true, sink);
        } else {
            // No lane takes anything away from this one.
            for lane in ones(self.parted) {
                self.probes[lane].step(patterns, symbol, has_base64(lane), sink);
            }
            self.unite(patterns);
        }
    }

    /// What decoders hold back is no escape: the stream has ended.
    pub(super) fn finish(&mut self, patterns: &Patterns, sink: &mut impl Sink) {
        for lane in 0..TREE.len() {
            for symbol in self.decoders[lane].finish().symbols() {
                self.give(lane, symbol, patterns, sink);
            }
        }
    }

    /// `lane` gives `symbol`. Children first: one that parts from a shared probe needs it as it was before.
    fn give(&mut self, lane: usize, symbol: Symbol, patterns: &Patterns, sink: &mut impl Sink) {
        for child in ones(CHILDREN[lane]) {
            match self.decoders[child].step(symbol) {
                Step::Same => self.give(child, symbol, patterns, sink),
                Step::Instead(output) => {
                    self.part(child);
                    for symbol in output.symbols() {
                        self.give(child, symbol, patterns, sink);
                    }
                }
            }
        }
        if self.has_own(lane) {
            self.probes[lane].step(patterns, symbol, has_base64(lane), sink);
        }
    }

    fn has_own(&self, lane: usize) -> bool {
        self.parted >> lane & 1 == 1
    }

    fn part(&mut self, lane: usize) {
        if !self.has_own(lane) {
            self.probes[lane] = self.probes[self.owner(lane)].clone();
            self.parted |= 1 << lane;
        }
    }

    /// The lane whose probe `lane` uses.
    fn owner(&self, mut lane: usize) -> usize {
        while !self.has_own(lane) {
            lane = TREE[lane].1;
        }
        lane
    }

    /// Lanes share again what has become the same.
    fn unite(&mut self, patterns: &Patterns) {
        for lane in ones(self.parted & !1) {
            let parent = &self.probes[self.owner(TREE[lane].1)];
            if self.decoders[lane].is_idle() && self.probes[lane].agrees_with(parent, patterns, has_base64(lane)) {
                self.parted &= !(1 << lane);
            }
        }
    }
}

fn has_base64(lane: usize) -> bool {
    WITHOUT_BASE64 >> lane & 1 == 0
}

fn ones(mut bits: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(lowest as usize)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use aho_corasick::PatternID;
    use proptest::prelude::*;

    use super::*;
    use crate::search::Encoding;

    impl Sink for BTreeSet<(PatternID, Encoding)> {
        fn found(&mut self, pattern: PatternID, encoding: Encoding) {
            self.insert((pattern, encoding));
        }
    }

    /// What a lane gives of a whole text, decoded step by step from the stream.
    fn decoded(lane: usize, text: &[u8]) -> Vec<Symbol> {
        if lane == 0 {
            return text.iter().map(|&byte| Symbol { byte, url: false }).collect();
        }
        let mut decoder = Lanes::new(&Patterns::new([(Arc::from(""), "")])).decoders[lane].clone();
        let mut symbols = Vec::new();
        for symbol in decoded(TREE[lane].1, text) {
            match decoder.step(symbol) {
                Step::Same => symbols.push(symbol),
                Step::Instead(output) => symbols.extend(output.symbols()),
            }
        }
        symbols.extend(decoder.finish().symbols());
        symbols
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        // Short secrets of bytes that escapes are made of, so that matches and escapes meet everywhere.
        #[test]
        fn lanes_that_share_tell_what_separate_ones_would(
            text in r#"([\\%+"u25cCnN \n=AQ&;#-]|=41|=\n|&#65;|&#x5c;|&amp;|%5c|%25|%35|%41|%2B|\\u0041|\\\\|41|QUE|QUFB|0x|\\x){0,40}"#,
            secrets in prop::collection::vec("[Aa\\\\%+\" 5\n]{1,3}", 1..4),
        ) {
            let patterns = Patterns::new(secrets.iter().map(|secret| (Arc::from(""), secret)));
            let mut expected = BTreeSet::new();
            for lane in 0..TREE.len() {
                let mut probe = Probe::new(&patterns);
                for symbol in decoded(lane, text.as_bytes()) {
                    probe.step(&patterns, symbol, has_base64(lane), &mut expected);
                }
            }
            let mut told = BTreeSet::new();
            let mut lanes = Lanes::new(&patterns);
            text.bytes().for_each(|byte| lanes.step(&patterns, byte, &mut told));
            lanes.finish(&patterns, &mut told);
            prop_assert_eq!(told, expected);
        }
    }
}
