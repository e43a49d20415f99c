//! A search through one stream.

use std::fmt;
use std::sync::Arc;

use super::container::Chain;
use super::findings::Findings;
use super::layer::{Layer, Place, Search};
use super::means::{Budget, Means};
use super::patterns::Patterns;
use super::{Match, Searched};

/// A search through one stream, fed in chunks that may be cut anywhere.
pub struct Scanner {
    patterns: Arc<Patterns>,
    layer: Layer,
    findings: Findings,
    means: Means,
}

impl Scanner {
    pub(super) fn new(patterns: Arc<Patterns>, budget: Arc<Budget>) -> Self {
        let layer = Layer::new(Place { chain: Chain::default(), offset: 0 }, &patterns);
        Scanner { patterns, layer, findings: Findings::default(), means: Means::new(budget) }
    }

    /// Takes the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.patterns.is_empty() {
            return;
        }
        self.means.read(chunk.len());
        let Scanner { patterns, layer, findings, means } = self;
        layer.feed(chunk, &mut Search { patterns, findings, means });
    }

    /// What has been found so far, each secret, encoding and way of containers once.
    pub fn matches(&self) -> &[Match] {
        &self.findings.matches
    }

    /// The stream is at its end: what has been found in it, and what of it was not searched.
    pub fn finish(self) -> Searched {
        let Scanner { patterns, layer, mut findings, mut means } = self;
        layer.finish(&mut Search { patterns: &patterns, findings: &mut findings, means: &mut means });
        findings.sort();
        Searched { matches: findings.matches, unsearched: findings.unsearched }
    }
}

/// How much was found, never what.
impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("matches", &self.matches().len()).finish_non_exhaustive()
    }
}
