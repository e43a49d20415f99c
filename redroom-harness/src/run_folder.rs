//! The per-user folder of what processes of redroom tell each other while they run: which slots are taken, which sessions live,
//! what is known of an engine. Nothing in it outlives a restart by right, and nobody else can write to it.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The folder; it exists and is the user's own.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// In the user's run-time folder where there is one, else among the temporary files.
    pub(crate) fn open() -> Result<Self> {
        match env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute() && folder.is_dir())
        {
            Some(folder) => Self::at(&folder.join("redroom")),
            None => Self::at(&env::temp_dir().join(format!("redroom-{}", rustix::process::geteuid().as_raw()))),
        }
    }

    pub(crate) fn at(path: &Path) -> Result<Self> {
        private_folder(path).map_err(|error| Self::unusable(path, &error))?;
        Ok(RunFolder { path: path.to_owned() })
    }

    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        private_folder(&path).map_err(|error| Self::unusable(&path, &error))?;
        Ok(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Holds a report that several processes write until the file is dropped. Waits for others that hold it; the kernel
    /// frees what a dead one held.
    pub(crate) fn lock_report(&self, what: &[u8], patience: Duration) -> Result<File> {
        let digest: String = Sha256::digest(what).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let path = self.file(&format!("report-{digest}.lock"));
        let failed = |error| Self::unusable(&path, &error);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        let deadline = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                    let detail = format!(
                        "another process has held {} for {} s, and does not let go; end it, and run again",
                        path.display(),
                        patience.as_secs()
                    );
                    return Err(Error::redroom("report_locked", detail));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    pub(crate) fn unusable(path: &Path, error: &io::Error) -> Error {
        let detail = format!("cannot use {}: {error}; set XDG_RUNTIME_DIR to a folder of your own", path.display());
        Error::redroom("run_folder_unusable", detail)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_held_by_one_process_and_by_no_dead_one() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::at(&parent.path().join("redroom")).unwrap();
        let held = folder.lock_report(b"one", Duration::ZERO).unwrap();
        let refused = folder.lock_report(b"one", Duration::ZERO).unwrap_err();
        assert_eq!(refused.code(), "report_locked");
        assert!(refused.detail().contains("report-") && refused.detail().contains("end it"), "{refused}");
        assert!(folder.lock_report(b"another", Duration::ZERO).is_ok());
        drop(held);
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 2, "the files stay");
        assert!(folder.lock_report(b"one", Duration::ZERO).is_ok());
    }

    #[test]
    fn a_folder_that_others_can_write_to_and_a_link_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RunFolder::at(&folder.path().join("own")).is_ok());
        assert!(RunFolder::at(&folder.path().join("own")).is_ok());
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(RunFolder::at(&open).unwrap_err().code(), "run_folder_unusable");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(RunFolder::at(&link).is_err());
    }
}
