//! A source is bytes in which containers may begin, anywhere: a stream, the content of a container, what base64 stands for.

use super::container::{Chain, Why};
use super::layer::{Place, Search};
use super::opener::{Certainty, Opener, Refused};
use super::signs::{Sign, Signs};

/// How many beginnings of a source are followed at once. Most are there by chance.
const CANDIDATES: usize = 3;

pub(super) struct Source {
    chain: Chain,
    /// Where the outermost container began; `None` in the stream itself.
    outermost: Option<u64>,
    position: u64,
    /// Whether its first byte is one among others, so that nothing is sure to begin there.
    amid: bool,
    signs: Signs,
    openers: Vec<Opener>,
}

impl Source {
    pub(super) fn new(chain: Chain, outermost: Option<u64>) -> Self {
        Source { chain, outermost, position: 0, amid: false, signs: Signs::default(), openers: Vec::new() }
    }

    /// One that begins amid other bytes.
    pub(super) fn amid(chain: Chain, outermost: Option<u64>) -> Self {
        Source { amid: true, ..Source::new(chain, outermost) }
    }

    /// Whether nothing is open in it.
    pub(super) fn is_idle(&self) -> bool {
        self.openers.is_empty()
    }

    pub(super) fn feed(&mut self, bytes: &[u8], search: &mut Search<'_>) {
        let mut rest = bytes;
        while let Some((length, sign)) = self.signs.next(rest) {
            let (before, after) = rest.split_at(length);
            self.follow(before, search);
            self.position += length as u64;
            self.begin(sign, search);
            rest = after;
        }
        self.follow(rest, search);
        self.position += rest.len() as u64;
    }

    pub(super) fn finish(self, search: &mut Search<'_>) {
        for opener in self.openers {
            opener.finish(search);
        }
    }

    fn follow(&mut self, bytes: &[u8], search: &mut Search<'_>) {
        if !bytes.is_empty() {
            self.openers.retain_mut(|opener| opener.feed(bytes, search));
        }
    }

    fn begin(&mut self, sign: Sign, search: &mut Search<'_>) {
        // What looks like a sign inside compressed bytes is none.
        if self.openers.iter().any(Opener::is_proven) {
            return;
        }
        let begun = self.position.saturating_sub(sign.len());
        let place = Place { chain: self.chain, offset: self.outermost.unwrap_or(begun) };
        let is_first = begun == 0 && !self.amid;
        let certainty = match sign {
            // Two bytes begin a text as well: `x^2`, the digits of a checksum.
            Sign::Zlib if is_first => Certainty::Likely,
            _ if is_first => Certainty::Certain,
            Sign::Zlib => Certainty::Doubtful,
            _ => Certainty::Likely,
        };
        if self.openers.len() == CANDIDATES {
            match self.openers.iter().position(Opener::is_doubtful) {
                Some(at) if certainty != Certainty::Doubtful => self.openers.remove(at).abandon(search),
                // So many at once are hardly there by chance, not even where one of them may be.
                _ => return search.findings.unsearched(sign.container(), place.chain, Why::TooMany, place.offset),
            }
        }
        match Opener::new(sign, place, certainty, search) {
            Ok(opener) => self.openers.push(opener),
            Err(Refused::Because(why)) => {
                search.findings.unsearched(sign.container(), place.chain, why, place.offset);
            }
            Err(Refused::Silently) => {}
        }
    }
}
