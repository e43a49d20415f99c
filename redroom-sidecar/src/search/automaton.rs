//! An automaton over all patterns of one lane, stepped byte by byte so that a stream may be cut anywhere.

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

/// All patterns of one lane.
pub(super) struct Automaton {
    /// `None` where there is nothing to find.
    nfa: Option<NFA>,
    /// The secret of each pattern.
    secrets: Vec<usize>,
}

/// How far a stream has come in an automaton.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    state: Option<StateID>,
    since_marked: Option<u64>,
}

impl Automaton {
    /// Finds the patterns as they are.
    pub(super) fn exact(patterns: impl Iterator<Item = (usize, Vec<u8>)>) -> Self {
        Self::build(patterns, false)
    }

    /// Finds the patterns in any ASCII letter case.
    pub(super) fn folded(patterns: impl Iterator<Item = (usize, Vec<u8>)>) -> Self {
        Self::build(patterns, true)
    }

    fn build(patterns: impl Iterator<Item = (usize, Vec<u8>)>, folded: bool) -> Self {
        let (secrets, patterns): (Vec<usize>, Vec<Vec<u8>>) =
            patterns.filter(|(_, pattern)| !pattern.is_empty()).unzip();
        // Standard semantics report overlapping patterns: one secret may be a part of another. Building fails only past
        // 2^31 states; a scenario is bounded far below.
        let nfa = NFA::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(folded)
            .build(&patterns)
            .ok()
            .filter(|_| !patterns.is_empty());
        Automaton { nfa, secrets }
    }

    /// The beginning of a stream.
    pub(super) fn start(&self) -> Cursor {
        let state = self.nfa.as_ref().and_then(|nfa| nfa.start_state(Anchored::No).ok());
        Cursor { state, since_marked: None }
    }

    /// Takes a byte; `found` gets the secret of every pattern that ends with it.
    pub(super) fn step(&self, cursor: &mut Cursor, byte: u8, mut found: impl FnMut(usize)) {
        let (Some(nfa), Some(state)) = (&self.nfa, cursor.state) else { return };
        let state = nfa.next_state(Anchored::No, state, byte);
        cursor.state = Some(state);
        if nfa.is_special(state) && nfa.is_match(state) {
            for index in 0..nfa.match_len(state) {
                found(self.secrets[nfa.match_pattern(state, index).as_usize()]);
            }
        }
    }

    /// Whether a pattern of this secret ended with the last byte.
    pub(super) fn ends_here(&self, cursor: &Cursor, secret: usize) -> bool {
        let (Some(nfa), Some(state)) = (&self.nfa, cursor.state) else { return false };
        nfa.is_match(state)
            && (0..nfa.match_len(state)).any(|index| self.secrets[nfa.match_pattern(state, index).as_usize()] == secret)
    }
}

impl Cursor {
    /// Counts a byte of the lane; `marked` ones are those that the lane's machine had to undo.
    pub(super) fn mark(&mut self, marked: bool) {
        self.since_marked = if marked { Some(0) } else { self.since_marked.map(|since| since.saturating_add(1)) };
    }

    /// How many bytes ago the last marked one was; 0 for the last byte itself.
    pub(super) fn since_marked(&self) -> Option<u64> {
        self.since_marked
    }
}
