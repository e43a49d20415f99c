//! A bounded log: the newest entries of one kind, and for each secret and encoding at least one that holds it.
//!
//! An agent can flood any log. What it must never achieve is that the entry which proves a leak is pushed out.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The most entries that a log keeps.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// The most that a log's entries weigh together, in bytes.
pub(crate) const MAX_WEIGHT: usize = 4 * 1024 * 1024;

/// What a log holds.
pub(crate) trait Entry: Clone {
    /// What the entry proves; each of these is kept at least once.
    type Proof: Eq + Hash + Clone;

    /// About how many bytes the entry holds.
    fn weight(&self) -> usize;

    /// What it proves.
    fn proofs(&self) -> Vec<Self::Proof>;

    /// Gives up what only decorates the proof: called when the entry outlives its place in the log.
    fn trim(&mut self);
}

/// A bounded log, ordered by number. Numbers are given from 1 without gaps; the entries may come in any order.
#[derive(Debug)]
pub(crate) struct Log<E: Entry> {
    recent: BTreeMap<u64, E>,
    kept: BTreeMap<u64, E>,
    holders: HashMap<E::Proof, u32>,
    weight: usize,
    highest: u64,
    max_entries: usize,
    max_weight: usize,
}

impl<E: Entry> Default for Log<E> {
    fn default() -> Self {
        Log::bounded(MAX_ENTRIES, MAX_WEIGHT)
    }
}

impl<E: Entry> Log<E> {
    fn bounded(max_entries: usize, max_weight: usize) -> Self {
        Log {
            recent: BTreeMap::new(),
            kept: BTreeMap::new(),
            holders: HashMap::new(),
            weight: 0,
            highest: 0,
            max_entries,
            max_weight,
        }
    }

    /// Takes the entry with this number, in place of an earlier state of it.
    pub(crate) fn put(&mut self, number: u64, entry: E) {
        self.highest = self.highest.max(number);
        if let Some(earlier) = self.recent.remove(&number) {
            self.weight -= earlier.weight();
            self.release(&earlier);
        } else if let Some(earlier) = self.kept.remove(&number) {
            self.release(&earlier);
        }
        for proof in entry.proofs() {
            *self.holders.entry(proof).or_default() += 1;
        }
        self.weight += entry.weight();
        self.recent.insert(number, entry);
        self.shrink();
    }

    /// The entries, oldest first.
    pub(crate) fn entries(&self) -> Vec<E> {
        let mut all: Vec<(&u64, &E)> = self.kept.iter().chain(&self.recent).collect();
        all.sort_by_key(|(number, _)| **number);
        all.into_iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The entry with this number, if it is still there.
    pub(crate) fn get(&self, number: u64) -> Option<&E> {
        self.recent.get(&number).or_else(|| self.kept.get(&number))
    }

    /// The newest entry that `matches`.
    pub(crate) fn find(&self, matches: impl Fn(&E) -> bool) -> Option<&E> {
        self.recent.values().rev().chain(self.kept.values().rev()).find(|entry| matches(entry))
    }

    /// How many entries were pushed out.
    pub(crate) fn dropped(&self) -> u64 {
        self.highest.saturating_sub((self.recent.len() + self.kept.len()) as u64)
    }

    fn shrink(&mut self) {
        while self.recent.len() > 1 && (self.recent.len() > self.max_entries || self.weight > self.max_weight) {
            let Some((number, mut oldest)) = self.recent.pop_first() else { return };
            self.weight -= oldest.weight();
            if oldest.proofs().iter().any(|proof| self.holders.get(proof) == Some(&1)) {
                oldest.trim();
                self.kept.insert(number, oldest);
            } else {
                self.release(&oldest);
            }
        }
    }

    fn release(&mut self, entry: &E) {
        for proof in entry.proofs() {
            if let Some(holders) = self.holders.get_mut(&proof) {
                *holders -= 1;
                if *holders == 0 {
                    self.holders.remove(&proof);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Note(&'static [&'static str], usize);

    impl Entry for Note {
        type Proof = &'static str;
        fn weight(&self) -> usize {
            self.1
        }
        fn proofs(&self) -> Vec<&'static str> {
            self.0.to_vec()
        }
        fn trim(&mut self) {
            self.1 = 1;
        }
    }

    #[test]
    fn a_flood_pushes_out_the_oldest_and_says_how_many() {
        let mut log = Log::bounded(10, 1_000);
        for number in 1..=25 {
            log.put(number, Note(&[], 1));
        }
        assert_eq!(log.entries().len(), 10);
        assert_eq!(log.dropped(), 15);
        assert!(log.get(25).is_some() && log.get(15).is_none());
    }

    #[test]
    fn weight_is_a_limit_too_but_the_newest_entry_stays() {
        let mut log = Log::bounded(10, 100);
        log.put(1, Note(&[], 60));
        log.put(2, Note(&[], 60));
        assert_eq!(log.entries().len(), 1);
        log.put(3, Note(&[], 500));
        assert_eq!(log.entries(), [Note(&[], 500)]);
    }

    #[test]
    fn the_last_proof_of_a_leak_survives_any_flood() {
        let mut log = Log::bounded(5, 1_000);
        log.put(3, Note(&["token/plain"], 50));
        for number in 4..=2_000 {
            log.put(number, Note(&[], 1));
        }
        log.put(2_001, Note(&["token/hex"], 50));
        for number in 2_002..=4_000 {
            log.put(number, Note(&[], 1));
        }
        let proofs: Vec<_> = log.entries().iter().flat_map(Note::proofs).collect();
        assert_eq!(proofs, ["token/plain", "token/hex"]);
        assert_eq!(log.entries().len() as u64 + log.dropped(), 4_000);
    }

    #[test]
    fn of_many_proofs_of_one_leak_only_one_need_stay() {
        let mut log = Log::bounded(5, 1_000);
        for number in 1..=100 {
            log.put(number, Note(&["token/plain"], 1));
        }
        assert_eq!(log.entries().len(), 5);
        for number in 101..=200 {
            log.put(number, Note(&[], 1));
        }
        assert_eq!(log.entries().iter().filter(|note| !note.0.is_empty()).count(), 1);
    }

    #[test]
    fn an_entry_that_grows_is_one_entry() {
        let mut log = Log::bounded(5, 1_000);
        log.put(1, Note(&[], 1));
        log.put(1, Note(&["token/plain"], 2));
        assert_eq!(log.entries(), [Note(&["token/plain"], 2)]);
        for number in 2..=9 {
            log.put(number, Note(&[], 1));
        }
        log.put(1, Note(&["token/plain"], 3));
        assert_eq!(log.entries()[0].proofs(), ["token/plain"]);
        assert_eq!(log.entries().len() as u64 + log.dropped(), 9);
    }
}
