//! What a search came to, and how what several came to is put together: bounded, however many there were.

use super::container::{Unsearched, Why};
use super::{Encoding, Match};

/// How much that was not searched is told.
const UNSEARCHED: usize = 32;

/// How many findings in containers are told. Past that, only what was not found at all yet.
const CONTAINED: usize = 1000;

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Searched {
    /// What was found, each secret, encoding and way of containers once.
    pub matches: Vec<Match>,
    /// What was not searched: a secret may be in it.
    pub unsearched: Vec<Unsearched>,
}

impl Searched {
    /// What another search came to belongs to it as well; of the same in both, this one's place is told.
    pub(crate) fn join(&mut self, other: Searched) {
        for found in other.matches {
            let way = |found: &Match| (found.secret.clone(), found.encoding);
            let known = self.matches.iter().any(|known| way(known) == way(&found) && known.inside == found.inside);
            let has_room = |matches: &[Match]| {
                found.inside.is_empty()
                    || matches.len() < CONTAINED
                    || !matches.iter().any(|known| way(known) == way(&found))
            };
            if !known && has_room(&self.matches) {
                self.matches.push(found);
            }
        }
        note_unsearched(&mut self.unsearched, other.unsearched);
    }

    /// Whether a secret was found in that encoding, whatever way.
    pub(crate) fn is_known(&self, secret: &str, encoding: Encoding) -> bool {
        self.matches.iter().any(|known| *known.secret == *secret && known.encoding == encoding)
    }
}

/// Notes parts that were not searched, each kind once, and so many. Returns whether one was new.
pub(crate) fn note_unsearched(noted: &mut Vec<Unsearched>, parts: impl IntoIterator<Item = Unsearched>) -> bool {
    let mut news = false;
    for part in parts {
        if let Some(known) = noted.iter_mut().find(|known| known.is_like(&part)) {
            known.offset = known.offset.min(part.offset);
            continue;
        }
        if noted.len() < UNSEARCHED {
            noted.push(part);
        } else if part.why != Why::Incomplete
            && let Some(lesser) = noted.iter_mut().rev().find(|known| known.why == Why::Incomplete)
        {
            // What broke off was searched as far as it was sent: it makes room for what leaves more open.
            *lesser = part;
        } else {
            continue;
        }
        news = true;
    }
    news
}
