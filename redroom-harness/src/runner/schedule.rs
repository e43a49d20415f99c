//! Tests over threads: each thread takes the next one, until none is left or none is to begin any more.
//!
//! Knows nothing of what a test is.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs `play` for each of `items`, in their order, on `threads` threads at once. `play` says whether others may still begin.
pub(super) fn play_all<T: Sync>(items: &[T], threads: NonZeroUsize, play: impl Fn(&T) -> bool + Sync) {
    let next = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let work = || {
        while !over.load(Ordering::Acquire) {
            let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if !play(item) {
                over.store(true, Ordering::Release);
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..threads.get().min(items.len()) {
            let thread = std::thread::Builder::new().name(format!("attack-{number}"));
            if let Err(error) = thread.spawn_scoped(scope, work) {
                tracing::warn!(%error, "a thread cannot be started; there are fewer attacks at once");
                if number == 0 {
                    work();
                }
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn each_is_played_once_and_in_order_where_there_is_one_thread() {
        let played = Mutex::new(Vec::new());
        play_all(&[1, 2, 3, 4], threads(1), |number| {
            played.lock().unwrap().push(*number);
            true
        });
        assert_eq!(*played.lock().unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn as_many_are_played_at_once_as_there_are_threads() {
        // Nobody passes before all three are there.
        let barrier = Barrier::new(3);
        play_all(&[1, 2, 3], threads(3), |_| {
            barrier.wait();
            true
        });
    }

    #[test]
    fn none_begins_after_the_last_word() {
        let played = AtomicUsize::new(0);
        play_all(&[1, 2, 3, 4], threads(1), |number| {
            played.fetch_add(1, Ordering::Relaxed);
            *number < 2
        });
        assert_eq!(played.into_inner(), 2);
    }
}
