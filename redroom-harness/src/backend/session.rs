//! Whether a session lives: it holds a lock on a file of its own for as long as its process does, and the kernel lets go of the lock
//! whatever ends the process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::run_folder::RunFolder;

/// How long a file may lie unlocked before it counts as left behind.
const YOUTH: Duration = Duration::from_secs(60);

/// What is known of a session by its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Somebody holds the lock, or it cannot be told.
    Lives,
    /// Its process was killed before it could tidy up.
    Dead,
    /// There is no lock of it here: it has ended, or its lock lies in a folder that this process does not use.
    Unknown,
}

/// A live session of this process.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    locks: String,
    path: PathBuf,
    _lock: File,
}

impl Session {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The id of the folder that the lock lies in.
    pub(crate) fn locks(&self) -> &str {
        &self.locks
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // While the lock is still held: a sweep that comes in between sees no file, which means the same.
        let _ = fs::remove_file(&self.path);
    }
}

/// The per-user folder of session locks.
#[derive(Clone, Debug)]
pub(crate) struct SessionLocks {
    folder: PathBuf,
    /// Distinguishes this folder from those of other machines, users and containers that use the same engine.
    id: String,
}

impl SessionLocks {
    pub(crate) fn open(folder: &RunFolder) -> Result<Self> {
        let folder = folder.subfolder("sessions")?;
        let id = identity(&folder).map_err(|error| RunFolder::unusable(&folder, &error))?;
        Ok(SessionLocks { folder, id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Marks a session as live until the value is dropped.
    pub(crate) fn hold(&self, session: &str) -> Result<Session> {
        let path =
            self.path(session).ok_or_else(|| Error::redroom("invalid_session", "a session's id must be a UUID"))?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        match lock.and_then(|lock| lock.try_lock().map_err(io::Error::from).map(|()| lock)) {
            Ok(lock) => Ok(Session { id: session.to_owned(), locks: self.id.clone(), path, _lock: lock }),
            Err(error) => Err(RunFolder::unusable(&path, &error)),
        }
    }

    /// Whether a session whose lock would lie here lives. In doubt it does.
    pub(crate) fn lives(&self, session: &str) -> bool {
        self.life(session) == Life::Lives
    }

    /// What is known of a session, wherever its lock lies. Of a dead one, it is known only once.
    pub(crate) fn life(&self, session: &str) -> Life {
        let Some(path) = self.path(session) else { return Life::Unknown };
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                    Life::Dead
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Life::Lives,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Life::Unknown,
            Err(_) => Life::Lives,
        }
    }

    /// Whether a process was killed before it could tidy up: there is something to sweep, however recent the last sweep is.
    pub(crate) fn any_dead(&self) -> bool {
        self.files().any(|path| is_free(&path))
    }

    /// Removes the files of the dead, when what they stood for has been swept.
    pub(crate) fn tidy(&self) {
        for path in self.files().filter(|path| is_free(path)) {
            // A young one may be about to be locked.
            let age = fs::metadata(&path).and_then(|facts| facts.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > YOUTH) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
    }

    /// A session's id comes from labels, too: it must not lead out of the folder.
    fn path(&self, session: &str) -> Option<PathBuf> {
        Uuid::try_parse(session).ok().map(|id| self.folder.join(format!("{}.lock", id.hyphenated())))
    }
}

fn is_free(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
}

/// The folder's id, made by whoever comes first.
fn identity(folder: &Path) -> io::Result<String> {
    let path = folder.join("id");
    let fresh = folder.join(format!(".id-{}", Uuid::new_v4()));
    if !path.exists() {
        fs::write(&fresh, Uuid::new_v4().to_string())?;
        let linked = fs::hard_link(&fresh, &path);
        fs::remove_file(&fresh)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    fs::read_to_string(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> (tempfile::TempDir, SessionLocks) {
        let folder = tempfile::tempdir().unwrap();
        let locks = SessionLocks::open(&RunFolder::at(&folder.path().join("redroom")).unwrap()).unwrap();
        (folder, locks)
    }

    #[test]
    fn a_session_lives_as_long_as_it_is_held() {
        let (_folder, locks) = locks();
        let id = Uuid::new_v4().to_string();
        assert!(!locks.lives(&id));
        let session = locks.hold(&id).unwrap();
        assert!(locks.lives(&id));
        assert!(locks.hold(&id).is_err());
        drop(session);
        assert!(!locks.lives(&id));
    }

    #[test]
    fn a_lock_file_without_a_holder_is_a_dead_session() {
        let (_folder, locks) = locks();
        let id = Uuid::new_v4().to_string();
        fs::write(locks.path(&id).unwrap(), "").unwrap();
        assert_eq!(locks.life(&id), Life::Dead);
        assert_eq!(locks.life(&id), Life::Unknown);
        assert!(!locks.path(&id).unwrap().exists());
    }

    #[test]
    fn a_killed_process_leaves_something_to_sweep_and_is_forgotten_after_it() {
        let (_folder, locks) = locks();
        let session = locks.hold(&Uuid::new_v4().to_string()).unwrap();
        assert!(!locks.any_dead());
        let left = locks.path(&Uuid::new_v4().to_string()).unwrap();
        fs::write(&left, "").unwrap();
        assert!(locks.any_dead());
        locks.tidy();
        assert!(left.exists(), "it could be about to be locked");
        let long_ago = std::time::SystemTime::now() - 2 * YOUTH;
        File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        locks.tidy();
        assert!(!left.exists() && session.path.exists());
    }

    #[test]
    fn ids_from_labels_cannot_leave_the_folder() {
        let (_folder, locks) = locks();
        assert!(locks.path("../../etc/passwd").is_none());
        assert!(locks.hold("..").is_err());
    }

    #[test]
    fn the_folder_has_one_id() {
        let (folder, locks) = locks();
        let again = SessionLocks::open(&RunFolder::at(&folder.path().join("redroom")).unwrap()).unwrap();
        assert_eq!(again.id(), locks.id());
    }
}
