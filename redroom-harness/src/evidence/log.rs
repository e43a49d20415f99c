//! A bounded log: the newest entries of one kind, and of those that prove something the earliest and the latest for each proof.
//!
//! An agent can flood any log. What it must never achieve is that the entry which proves a leak is pushed out, or the one which
//! leaves the question open: the first shows how it began, the last that it went on. Before anything is pushed out for its weight, the heaviest entries shrink:
//! a few large ones cannot empty the log of many small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// The most entries that a log keeps.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// The most that a log's entries weigh together, in bytes.
pub(crate) const MAX_WEIGHT: usize = 4 * 1024 * 1024;

/// What a log holds.
pub(crate) trait Entry: Clone {
    /// What the entry proves; of each of these the earliest and the latest entry are kept.
    type Proof: Eq + Hash + Clone;

    /// About how many bytes the entry holds.
    fn weight(&self) -> usize;

    /// What it proves.
    fn proofs(&self) -> Vec<Self::Proof>;

    /// Gives up what only decorates it, and says so in itself: called when the log is too heavy. Never adds weight.
    fn trim(&mut self);
}

/// A bounded log, ordered by number. Numbers are given from 1 without gaps; the entries may come in any order.
#[derive(Debug)]
pub(crate) struct Log<E: Entry> {
    recent: BTreeMap<u64, E>,
    kept: BTreeMap<u64, E>,
    /// The numbers of the entries that are there, by what they prove.
    holders: HashMap<E::Proof, BTreeSet<u64>>,
    /// The recent entries that are still whole: what they weigh, and their numbers.
    whole: BTreeSet<(usize, Reverse<u64>)>,
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
            whole: BTreeSet::new(),
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
            self.whole.remove(&(earlier.weight(), Reverse(number)));
            self.release(number, &earlier);
        } else if let Some(earlier) = self.kept.remove(&number) {
            self.release(number, &earlier);
        }
        let proofs = entry.proofs();
        for proof in &proofs {
            self.holders.entry(proof.clone()).or_default().insert(number);
        }
        self.weight += entry.weight();
        self.whole.insert((entry.weight(), Reverse(number)));
        self.recent.insert(number, entry);
        self.shrink();
        proofs.iter().for_each(|proof| self.let_go(proof));
    }

    /// Takes one more entry, which is never another state of an earlier one.
    pub(crate) fn push(&mut self, entry: E) {
        self.put(self.highest + 1, entry);
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

    /// How many entries were pushed out.
    pub(crate) fn dropped(&self) -> u64 {
        self.highest.saturating_sub((self.recent.len() + self.kept.len()) as u64)
    }

    fn shrink(&mut self) {
        self.trim_the_heaviest();
        while self.recent.len() > 1 && (self.recent.len() > self.max_entries || self.weight > self.max_weight) {
            let Some((number, mut oldest)) = self.recent.pop_first() else { return };
            self.weight -= oldest.weight();
            self.whole.remove(&(oldest.weight(), Reverse(number)));
            if self.is_needed(number, &oldest) {
                oldest.trim();
                self.kept.insert(number, oldest);
            } else {
                self.release(number, &oldest);
            }
        }
    }

    /// Of entries of one weight the oldest goes first; the newest of all stays as it is.
    fn trim_the_heaviest(&mut self) {
        let newest = self.recent.last_key_value().map(|(number, entry)| (entry.weight(), Reverse(*number)));
        while self.weight > self.max_weight {
            let heaviest = self.whole.iter().rev().find(|candidate| Some(**candidate) != newest).copied();
            let Some((weight, Reverse(number))) = heaviest else { return };
            self.whole.remove(&(weight, Reverse(number)));
            if let Some(entry) = self.recent.get_mut(&number) {
                entry.trim();
                self.weight = self.weight - weight + entry.weight();
            }
        }
    }

    /// Whether it is the earliest or the latest to prove something.
    fn is_needed(&self, number: u64, entry: &E) -> bool {
        let at_an_end = |numbers: &BTreeSet<u64>| numbers.first() == Some(&number) || numbers.last() == Some(&number);
        entry.proofs().iter().any(|proof| self.holders.get(proof).is_some_and(at_an_end))
    }

    /// Drops what was kept as the earliest or latest proof, and is neither now that there is another.
    fn let_go(&mut self, proof: &E::Proof) {
        let Some(numbers) = self.holders.get(proof) else { return };
        for number in [numbers.iter().nth(1).copied(), numbers.iter().nth_back(1).copied()].into_iter().flatten() {
            let needless = self.kept.get(&number).is_some_and(|entry| !self.is_needed(number, entry));
            if needless && let Some(entry) = self.kept.remove(&number) {
                self.release(number, &entry);
            }
        }
    }

    fn release(&mut self, number: u64, entry: &E) {
        for proof in entry.proofs() {
            if let Some(holders) = self.holders.get_mut(&proof) {
                holders.remove(&number);
                if holders.is_empty() {
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
            self.1 = self.1.min(10);
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
        for number in 1..=11 {
            log.put(number, Note(&[], 10));
        }
        assert_eq!((log.entries().len(), log.dropped()), (10, 1));
        log.put(12, Note(&[], 500));
        assert_eq!(log.entries(), [Note(&[], 500)]);
    }

    #[test]
    fn heavy_entries_shrink_before_a_light_one_is_pushed_out() {
        let mut log = Log::bounded(10, 100);
        for (number, weight) in [(1, 9), (2, 60), (3, 50), (4, 45)] {
            log.put(number, Note(&[], weight));
        }
        let weights = |log: &Log<Note>| log.entries().iter().map(Note::weight).collect::<Vec<_>>();
        assert_eq!(weights(&log), [9, 10, 10, 45]);
        log.put(3, Note(&[], 70));
        log.put(5, Note(&[], 60));
        assert_eq!(weights(&log), [9, 10, 10, 10, 60], "what comes again comes whole, and shrinks again");
        assert_eq!(log.dropped(), 0);
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

    fn numbers(log: &Log<Note>) -> Vec<u64> {
        log.kept.keys().chain(log.recent.keys()).copied().collect()
    }

    #[test]
    fn of_many_proofs_of_one_leak_the_first_and_the_last_stay() {
        let mut log = Log::bounded(5, 1_000);
        for number in 1..=100 {
            let proofs: &'static [&'static str] = if number < 3 { &[] } else { &["token/plain"] };
            log.put(number, Note(proofs, 1));
        }
        assert_eq!(numbers(&log), [3, 96, 97, 98, 99, 100]);
        for number in 101..=200 {
            log.put(number, Note(&[], 1));
        }
        assert_eq!(numbers(&log), [3, 100, 196, 197, 198, 199, 200]);
        log.put(201, Note(&["token/plain"], 1));
        assert_eq!(numbers(&log), [3, 197, 198, 199, 200, 201], "the one between is no longer the last");
        assert_eq!(log.entries().len() as u64 + log.dropped(), 201);
    }

    #[test]
    fn an_entry_between_stays_for_what_else_it_proves() {
        let mut log = Log::bounded(2, 1_000);
        for proofs in [&["a"][..], &["a", "b"], &["a"], &[], &[], &[]] {
            log.put(log.highest + 1, Note(proofs, 1));
        }
        assert_eq!(numbers(&log), [1, 2, 3, 5, 6]);
    }

    #[test]
    fn proofs_that_come_late_or_in_any_order_still_leave_the_first_and_the_last() {
        let mut log = Log::bounded(3, 1_000);
        for number in [4, 2, 3, 6, 5, 8, 7] {
            log.put(number, Note(&["a"], 1));
        }
        for number in 9..=20 {
            log.put(number, Note(&[], 1));
        }
        assert_eq!(numbers(&log), [2, 8, 18, 19, 20]);
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
