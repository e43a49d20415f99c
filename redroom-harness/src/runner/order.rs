//! The order of tests: by name, or shuffled by a seed, so that an order which showed something can be had again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

/// How tests are to be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffle {
    /// As this seed has it.
    By(u64),
    /// By a seed that nobody has chosen.
    ByChance,
}

impl Shuffle {
    pub(super) fn seed(self) -> u64 {
        match self {
            Shuffle::By(seed) => seed,
            Shuffle::ByChance => RandomState::new().hash_one(std::process::id()),
        }
    }
}

/// Mixes them: the same seed gives the same order, on every machine.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for end in (2..=items.len()).rev() {
        // The remainder prefers small numbers by less than one in 2^50: no matter for an order of tests.
        let chosen = usize::try_from(next(&mut state) % end as u64).unwrap_or(0);
        items.swap(end - 1, chosen);
    }
}

/// SplitMix64, by Steele, Lea and Flood.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_its_seeds_and_loses_nobody() {
        let mixed = |seed| {
            let mut numbers: Vec<u32> = (0..50).collect();
            shuffle(&mut numbers, seed);
            numbers
        };
        assert_eq!(mixed(7), mixed(7));
        assert_ne!(mixed(7), mixed(8));
        let mut sorted = mixed(7);
        assert_ne!(sorted, (0..50).collect::<Vec<_>>());
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn chance_gives_another_seed_each_time() {
        assert_ne!(Shuffle::ByChance.seed(), Shuffle::ByChance.seed());
        assert_eq!(Shuffle::By(3).seed(), 3);
    }
}
