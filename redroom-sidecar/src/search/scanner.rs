//! A search through one stream.

use std::fmt;
use std::sync::Arc;

use aho_corasick::PatternID;

use super::lane::Lanes;
use super::patterns::Patterns;
use super::probe::Sink;
use super::{Encoding, Match};

/// A search through one stream, fed in chunks that may be cut anywhere.
pub struct Scanner {
    patterns: Arc<Patterns>,
    lanes: Lanes,
    findings: Findings,
}

impl Scanner {
    pub(super) fn new(patterns: Arc<Patterns>) -> Self {
        let lanes = Lanes::new(&patterns);
        Scanner { patterns, lanes, findings: Findings::default() }
    }

    /// Takes the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.patterns.is_empty() {
            return;
        }
        let mut sink = Collector { patterns: &self.patterns, findings: &mut self.findings };
        for &byte in chunk {
            sink.findings.offset += 1;
            self.lanes.step(&self.patterns, byte, &mut sink);
        }
    }

    /// What has been found so far, each secret and encoding once.
    pub fn matches(&self) -> &[Match] {
        &self.findings.matches
    }

    /// The stream is at its end: what has been found in it.
    pub fn finish(mut self) -> Vec<Match> {
        let mut sink = Collector { patterns: &self.patterns, findings: &mut self.findings };
        self.lanes.finish(&self.patterns, &mut sink);
        self.findings.matches
    }
}

/// How much was found, never what.
impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("matches", &self.matches().len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Findings {
    offset: u64,
    matches: Vec<Match>,
    /// By secret: a bit for each encoding. Empty until something is found.
    known: Vec<u8>,
}

struct Collector<'a> {
    patterns: &'a Patterns,
    findings: &'a mut Findings,
}

impl Sink for Collector<'_> {
    fn found(&mut self, pattern: PatternID, encoding: Encoding) {
        let secret = self.patterns.secret_of(pattern);
        let Findings { offset, matches, known } = &mut *self.findings;
        known.resize(self.patterns.secrets(), 0);
        let bit = 1 << encoding as u8;
        if known[secret] & bit == 0 {
            known[secret] |= bit;
            matches.push(Match { secret: self.patterns.name(secret).clone(), encoding, offset: *offset });
        }
    }
}
