//! A slot's number, held through a file lock: the limit on live runs holds over test binaries, terminals and nextest's
//! process per test, and the kernel frees it when the holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use crate::error::Result;
use crate::run_folder::RunFolder;

/// The number of a slot that nobody else on this machine (of this user) has. Freed when it is dropped, and by the kernel.
#[derive(Debug)]
pub(crate) struct SlotLock {
    number: u32,
    _file: File,
}

/// The lock files of slots, one for each number, in the run folder of this user.
#[derive(Clone, Debug)]
pub(crate) struct SlotLocks(RunFolder);

impl SlotLocks {
    pub(crate) fn of(folder: RunFolder) -> Self {
        SlotLocks(folder)
    }

    /// Waits until one of `parallel` numbers is free; `wanted` are tried first, for they cost less to open.
    pub(crate) async fn acquire(&self, parallel: u32, wanted: &[u32]) -> Result<SlotLock> {
        let mut pause = Duration::from_millis(5);
        loop {
            let order = wanted.iter().copied().filter(|number| *number < parallel).chain(0..parallel);
            for number in order {
                if let Some(lock) = self.try_acquire(number)? {
                    return Ok(lock);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    fn try_acquire(&self, number: u32) -> Result<Option<SlotLock>> {
        let path = self.0.file(&format!("slot-{number:03}.lock"));
        let failed = |error| RunFolder::unusable(&path, &error);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(SlotLock { number, _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

impl SlotLock {
    /// The slot's number, from 0.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> (tempfile::TempDir, SlotLocks) {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::at(&parent.path().join("redroom")).unwrap();
        (parent, SlotLocks::of(folder))
    }

    #[tokio::test]
    async fn two_holders_never_have_one_number() {
        let (_parent, locks) = locks();
        let first = locks.acquire(2, &[]).await.unwrap();
        let second = locks.acquire(2, &[0]).await.unwrap();
        assert_eq!((first.number(), second.number()), (0, 1));
        let third = tokio::time::timeout(Duration::from_millis(50), locks.acquire(2, &[])).await;
        assert!(third.is_err(), "both numbers are taken");
        drop(first);
        assert_eq!(locks.acquire(2, &[]).await.unwrap().number(), 0);
    }

    #[tokio::test]
    async fn a_wanted_number_comes_first() {
        let (_parent, locks) = locks();
        assert_eq!(locks.acquire(4, &[3, 9]).await.unwrap().number(), 3);
    }
}
