//! A layer is bytes that lie in the same containers: the stream itself, or the content of one. They are searched as text,
//! and for containers that begin in them.

use super::armour::Armours;
use super::container::Chain;
use super::findings::{Findings, Teller};
use super::lane::Lanes;
use super::means::Means;
use super::patterns::Patterns;
use super::source::Source;

/// What every part of a search works with.
pub(super) struct Search<'a> {
    pub(super) patterns: &'a Patterns,
    pub(super) findings: &'a mut Findings,
    pub(super) means: &'a mut Means,
}

/// Where bytes lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) chain: Chain,
    /// In the stream: where the outermost container began; outside of any, how many bytes were read.
    pub(super) offset: u64,
}

pub(super) struct Layer {
    place: Place,
    lanes: Lanes,
    source: Source,
    armours: Armours,
}

impl Layer {
    pub(super) fn new(place: Place, patterns: &Patterns) -> Self {
        let outermost = (!place.chain.is_empty()).then_some(place.offset);
        Layer {
            place,
            lanes: Lanes::new(patterns),
            source: Source::new(place.chain, outermost),
            armours: Armours::new(place.chain, outermost),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], search: &mut Search<'_>) {
        let step = u64::from(self.place.chain.is_empty());
        let Place { chain, offset } = self.place;
        let mut teller = Teller { patterns: search.patterns, findings: search.findings, chain, offset };
        for &byte in bytes {
            teller.offset += step;
            self.lanes.step(search.patterns, byte, &mut teller);
        }
        self.place.offset = teller.offset;
        self.source.feed(bytes, search);
        self.armours.feed(bytes, search);
    }

    /// The bytes have come to their end.
    pub(super) fn finish(mut self, search: &mut Search<'_>) {
        let Place { chain, offset } = self.place;
        let mut teller = Teller { patterns: search.patterns, findings: search.findings, chain, offset };
        self.lanes.finish(search.patterns, &mut teller);
        self.source.finish(search);
        self.armours.finish(search);
    }
}
