//! A slot's number, held through a file lock: the limit on live runs holds over test binaries, terminals and nextest's
//! process per test, and the kernel frees it when the holder dies.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// The number of a slot that nobody else on this machine (of this user) has. Freed when it is dropped, and by the kernel.
#[derive(Debug)]
pub(crate) struct SlotLock {
    number: u32,
    _file: File,
}

/// A folder of lock files, one for each number.
#[derive(Clone, Debug)]
pub(crate) struct LockFolder(PathBuf);

impl LockFolder {
    /// The folder of this user: `$XDG_RUNTIME_DIR/redroom`, else `redroom-<uid>` in the folder for temporary files.
    pub(crate) fn of_this_user(runtime_dir: Option<&Path>) -> Result<Self> {
        let uid = rustix::process::getuid().as_raw();
        match runtime_dir.filter(|folder| folder.is_absolute() && folder.is_dir()) {
            Some(folder) => Self::open(folder.join("redroom"), uid),
            None => Self::open(std::env::temp_dir().join(format!("redroom-{uid}")), uid),
        }
    }

    fn open(folder: PathBuf, uid: u32) -> Result<Self> {
        let refuse = |why: String| {
            Error::redroom(
                "run_folder_unusable",
                format!(
                    "{} cannot hold the slots' lock files: {why}; remove it, or set XDG_RUNTIME_DIR",
                    folder.display()
                ),
            )
        };
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(refuse(error.to_string())),
            _ => {}
        }
        // In a shared folder somebody else could have made it first, or put a link there.
        let facts = fs::symlink_metadata(&folder).map_err(|error| refuse(error.to_string()))?;
        if !facts.is_dir() || facts.uid() != uid {
            return Err(refuse("it is not a folder of yours".to_owned()));
        }
        if facts.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
                .map_err(|error| refuse(error.to_string()))?;
        }
        Ok(LockFolder(folder))
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
        let path = self.0.join(format!("slot-{number:03}.lock"));
        let failed = |error: std::io::Error| {
            Error::redroom("run_folder_unusable", format!("{} cannot be locked: {error}", path.display()))
        };
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

    fn folder() -> (tempfile::TempDir, LockFolder) {
        let parent = tempfile::tempdir().unwrap();
        let folder = LockFolder::of_this_user(Some(parent.path())).unwrap();
        (parent, folder)
    }

    #[tokio::test]
    async fn two_holders_never_have_one_number() {
        let (_parent, folder) = folder();
        let first = folder.acquire(2, &[]).await.unwrap();
        let second = folder.acquire(2, &[0]).await.unwrap();
        assert_eq!((first.number(), second.number()), (0, 1));
        let third = tokio::time::timeout(Duration::from_millis(50), folder.acquire(2, &[])).await;
        assert!(third.is_err(), "both numbers are taken");
        drop(first);
        assert_eq!(folder.acquire(2, &[]).await.unwrap().number(), 0);
    }

    #[tokio::test]
    async fn a_wanted_number_comes_first() {
        let (_parent, folder) = folder();
        assert_eq!(folder.acquire(4, &[3, 9]).await.unwrap().number(), 3);
    }

    #[test]
    fn a_folder_that_others_can_write_is_taken_back_and_a_link_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("redroom")).unwrap();
        fs::set_permissions(parent.path().join("redroom"), fs::Permissions::from_mode(0o777)).unwrap();
        let folder = LockFolder::of_this_user(Some(parent.path())).unwrap();
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);

        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(parent.path(), other.path().join("redroom")).unwrap();
        let error = LockFolder::of_this_user(Some(other.path())).unwrap_err();
        assert_eq!(error.code(), "run_folder_unusable");
    }
}
