//! What opening containers may cost: bytes of memory, of all streams together; inflated bytes and openers, of each stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::deflate::Inflate;

/// The most memory that all streams together may open containers with.
const MEMORY: usize = 32 << 20;

/// How many decoders of one stream may be open at once, those of chance beginnings included.
const OPEN: usize = 16;

/// What a stream may inflate to, however little it is; after that …
const FREE: u64 = 1 << 20;
/// … so many times what was read …
const RATIO: u64 = 256;
/// … until it is this much; after that …
const LARGE: u64 = 64 << 20;
/// … so many times.
const LARGE_RATIO: u64 = 8;

/// Memory that the streams of one run share.
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Budget(AtomicUsize::new(MEMORY)))
    }

    fn take(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes)).ok()?;
        Some(Permit { budget: self.clone(), bytes })
    }

    #[cfg(any(test, redroom_fuzzing))]
    pub(super) fn is_untouched(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MEMORY
    }

    #[cfg(test)]
    pub(super) fn exhaust(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Memory that was taken from a budget; given back when dropped.
pub(super) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// What one stream has used.
pub(super) struct Means {
    budget: Arc<Budget>,
    read: u64,
    inflated: u64,
    open: usize,
    /// One that is not in use: chance beginnings cost no allocation.
    spare: Option<Box<Inflate>>,
}

impl Means {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Means { budget, read: 0, inflated: 0, open: 0, spare: None }
    }

    pub(super) fn read(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }

    /// Whether so many more inflated bytes may be searched.
    pub(super) fn inflate(&mut self, bytes: usize) -> bool {
        self.inflated = self.inflated.saturating_add(bytes as u64);
        let small = FREE.saturating_add(self.read.saturating_mul(RATIO));
        let large = LARGE.saturating_add(self.read.saturating_mul(LARGE_RATIO));
        self.inflated <= small.min(large)
    }

    /// One more decoder may be open, unless there are too many, or too little memory is left.
    pub(super) fn open<D>(&mut self, weight: usize, new: impl FnOnce(Permit) -> D) -> Option<D> {
        if self.open == OPEN {
            return None;
        }
        let decoder = new(self.budget.take(weight)?);
        self.open += 1;
        Some(decoder)
    }

    /// A decoder that [`Means::open`] let be has been closed.
    pub(super) fn close(&mut self) {
        self.open -= 1;
    }

    pub(super) fn open_inflate(&mut self) -> Option<Box<Inflate>> {
        match self.spare.take() {
            Some(mut spare) => {
                spare.reset();
                self.open += 1;
                Some(spare)
            }
            None => self.open(Inflate::WEIGHT, |permit| Box::new(Inflate::new(permit))),
        }
    }

    pub(super) fn close_inflate(&mut self, inflate: Box<Inflate>) {
        self.spare = Some(inflate);
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_inflated_grows_with_what_was_read() {
        let mut means = Means::new(Budget::new());
        assert!(means.inflate(1 << 20) && !means.inflate(1));
        means.read(10 << 20);
        assert!(means.inflate(140 << 20) && !means.inflate(10 << 20));
    }

    #[test]
    fn memory_comes_back() {
        let budget = Budget::new();
        let permits: Vec<_> = std::iter::from_fn(|| budget.take(1 << 20)).collect();
        assert_eq!(permits.len(), 32);
        drop(permits);
        assert!(budget.is_untouched());
    }
}
