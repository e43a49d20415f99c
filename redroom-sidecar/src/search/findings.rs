//! What a search through one stream has come to.

use std::collections::{HashMap, HashSet};

use aho_corasick::PatternID;

use super::container::{Chain, Container, Unsearched, Why};
use super::patterns::Patterns;
use super::probe::Sink;
use super::searched::note_unsearched;
use super::{Encoding, Match};

/// How many different ways of containers are told, and how many findings in containers. Past that, only what was not found
/// at all yet.
const CHAINS: usize = 16;
const CONTAINED: usize = 1000;

#[derive(Default)]
pub(super) struct Findings {
    pub(super) matches: Vec<Match>,
    pub(super) unsearched: Vec<Unsearched>,
    /// By secret: a bit for each encoding that was found in no container. Empty until something is found.
    plain: Vec<u16>,
    /// For containers: which of the matches it is.
    contained: HashMap<(Chain, usize, Encoding), usize>,
    chains: HashSet<Chain>,
}

impl Findings {
    pub(super) fn unsearched(&mut self, container: Container, inside: Chain, why: Why, offset: u64) {
        note_unsearched(&mut self.unsearched, [Unsearched { container, inside: inside.to_vec(), why, offset }]);
    }

    /// Sorts, so that what is told does not depend on how the stream was cut.
    pub(super) fn sort(&mut self) {
        self.matches.sort_by(|a, b| {
            let key = |found: &Match| (found.offset, found.inside.len(), found.encoding);
            key(a).cmp(&key(b)).then_with(|| (&a.inside, &a.secret).cmp(&(&b.inside, &b.secret)))
        });
        self.unsearched.sort();
    }

    fn tell(&mut self, patterns: &Patterns, pattern: PatternID, encoding: Encoding, chain: Chain, offset: u64) {
        let secret = patterns.secret_of(pattern);
        self.plain.resize(patterns.secrets(), 0);
        let bit = 1_u16 << encoding as u8;
        let found_outside = self.plain[secret] & bit != 0;
        if chain.is_empty() {
            self.plain[secret] |= bit;
            if found_outside {
                return;
            }
        } else if let Some(&known) = self.contained.get(&(chain, secret, encoding)) {
            // Which of several containers is read first depends on how the stream was cut.
            let known = &mut self.matches[known].offset;
            *known = offset.min(*known);
            return;
        } else if self.has_room(chain, secret, encoding, found_outside) {
            self.contained.insert((chain, secret, encoding), self.matches.len());
        } else {
            return;
        }
        let secret = patterns.name(secret).clone();
        self.matches.push(Match { secret, encoding, inside: chain.to_vec(), offset });
    }

    fn has_room(&mut self, chain: Chain, secret: usize, encoding: Encoding, found_outside: bool) -> bool {
        let is_known_chain = self.chains.contains(&chain) || self.chains.len() < CHAINS;
        if is_known_chain && self.contained.len() < CONTAINED {
            self.chains.insert(chain);
            return true;
        }
        !found_outside && !self.contained.keys().any(|&(_, s, e)| (s, e) == (secret, encoding))
    }
}

/// Tells what was found at a place.
pub(super) struct Teller<'a> {
    pub(super) patterns: &'a Patterns,
    pub(super) findings: &'a mut Findings,
    pub(super) chain: Chain,
    pub(super) offset: u64,
}

impl Sink for Teller<'_> {
    fn found(&mut self, pattern: PatternID, encoding: Encoding) {
        self.findings.tell(self.patterns, pattern, encoding, self.chain, self.offset);
    }
}
