//! The per-user folder of what processes of redroom tell each other while they run. Nothing in it outlives a restart by right, and
//! nobody else can write to it.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The folder; it exists and is the user's own.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// In the user's run-time folder where there is one, else among the temporary files.
    pub(crate) fn open() -> Result<Self> {
        match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
            Some(folder) => Self::at(&Path::new(&folder).join("redroom")),
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
