//! Whether a session lives: it holds a lock on a file of its own for as long as its process does, and the kernel lets go of the lock
//! whatever ends the process.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::{Error, Result};

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
    /// In the user's run-time folder, which is made if need be.
    pub(crate) fn open() -> Result<Self> {
        let folder = match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
            Some(folder) => Path::new(&folder).join("redroom"),
            None => env::temp_dir().join(format!("redroom-{}", rustix::process::geteuid().as_raw())),
        };
        Self::open_in(&folder).map_err(|error| {
            let folder = folder.display();
            Error::redroom(
                "runtime_folder_unusable",
                format!("cannot keep locks in {folder}: {error}; set XDG_RUNTIME_DIR"),
            )
        })
    }

    fn open_in(folder: &Path) -> io::Result<Self> {
        private_folder(folder)?;
        let sessions = folder.join("sessions");
        private_folder(&sessions)?;
        Ok(SessionLocks { id: identity(&sessions)?, folder: sessions })
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
            Err(error) => {
                let detail = format!("cannot lock {}: {error}", path.display());
                Err(Error::redroom("runtime_folder_unusable", detail))
            }
        }
    }

    /// Whether somebody holds this session's lock. In doubt it lives.
    pub(crate) fn lives(&self, session: &str) -> bool {
        let Some(path) = self.path(session) else { return false };
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => {
                    // Its holder was killed: it could not tidy up.
                    let _ = fs::remove_file(&path);
                    false
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
            },
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// A session's id comes from labels, too: it must not lead out of the folder.
    fn path(&self, session: &str) -> Option<PathBuf> {
        Uuid::try_parse(session).ok().map(|id| self.folder.join(format!("{}.lock", id.hyphenated())))
    }
}

/// A folder that belongs to this user and is open to nobody else.
fn private_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to somebody else, or others can write to it",
        ));
    }
    Ok(())
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
        let locks = SessionLocks::open_in(&folder.path().join("redroom")).unwrap();
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
        assert!(!locks.lives(&id));
        assert!(!locks.path(&id).unwrap().exists());
    }

    #[test]
    fn ids_from_labels_cannot_leave_the_folder() {
        let (_folder, locks) = locks();
        assert!(locks.path("../../etc/passwd").is_none());
        assert!(locks.hold("..").is_err());
    }

    #[test]
    fn the_folder_has_one_id_and_must_be_the_users_own() {
        let (folder, locks) = locks();
        let again = SessionLocks::open_in(&folder.path().join("redroom")).unwrap();
        assert_eq!(again.id(), locks.id());
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(SessionLocks::open_in(&open).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(SessionLocks::open_in(&link).is_err());
    }
}
