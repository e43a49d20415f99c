//! Files to plant that lie in a folder of the user's crate.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::{File, Files, IntoFiles};
use crate::error::{Error, Result};

const FILE_LIMIT: usize = 10_000;
const BYTE_LIMIT: u64 = 64 * 1024 * 1024;
const DEPTH_LIMIT: usize = 32;

/// The files of a folder, to plant: `workspace = redroom::dir("tests/fixtures/calculator")`.
///
/// A relative path starts at the crate's own folder when cargo runs the test (`CARGO_MANIFEST_DIR` at run time), else at
/// the current one. The folder is read when the run starts. Contents are planted as bytes unless
/// [`with_secrets`](Dir::with_secrets) is called; the executable bit is kept; hidden files are included, whatever
/// `.gitignore` says. At most 10,000 files, 64 MiB, 32 folders deep. Symbolic links are refused.
pub fn dir(path: impl Into<PathBuf>) -> Dir {
    Dir { path: path.into(), with_secrets: false, under: None }
}

/// A folder of files to plant; made by [`dir`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Dir {
    path: PathBuf,
    with_secrets: bool,
    under: Option<String>,
}

impl Dir {
    /// Reads the files that are UTF-8 as templates, in which `${secrets.NAME}` stands for a secret's value.
    pub fn with_secrets(mut self) -> Self {
        self.with_secrets = true;
        self
    }

    /// Plants the files below this folder of the sandbox: `files = redroom::dir("tests/fixtures/home").under("/home/agent")`.
    pub fn under(mut self, folder: impl Into<String>) -> Self {
        self.under = Some(folder.into());
        self
    }

    /// Reads the folder.
    ///
    /// # Errors
    /// `folder_unreadable` when it does not exist, holds a symbolic link, something that is no file, a name that is not
    /// UTF-8, or more than can be planted.
    pub fn read(&self) -> Result<Files> {
        let mut reading = Reading { files: Vec::new(), bytes: 0 };
        reading.folder(&from_crate(&self.path), "", 0)?;
        let mut files: Files = reading.files.into_iter().collect();
        if self.with_secrets {
            files = files.with_secrets();
        }
        if let Some(folder) = &self.under {
            files = files.under(folder);
        }
        Ok(files)
    }
}

impl IntoFiles for Dir {
    fn into_files(self) -> Result<Files> {
        self.read()
    }
}

/// A path as the user of a crate means it.
pub(crate) fn from_crate(path: &Path) -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(manifest) if path.is_relative() => PathBuf::from(manifest).join(path),
        _ => path.to_owned(),
    }
}

struct Reading {
    files: Vec<(String, File)>,
    bytes: u64,
}

impl Reading {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<()> {
        if depth > DEPTH_LIMIT {
            return Err(unreadable(folder, format!("lies more than {DEPTH_LIMIT} folders deep")));
        }
        let mut entries = fs::read_dir(folder)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
            })
            .map_err(|error| unreadable(folder, error))?;
        entries.sort();
        for name in entries {
            let path = folder.join(&name);
            let name = name.to_str().ok_or_else(|| unreadable(&path, "its name is not UTF-8"))?;
            let planted = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            let metadata = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, error))?;
            if metadata.is_dir() {
                self.folder(&path, &planted, depth + 1)?;
            } else if metadata.is_file() {
                self.file(&path, planted, &metadata)?;
            } else if metadata.is_symlink() {
                return Err(unreadable(
                    &path,
                    "it is a symbolic link, which cannot be planted: put a file in its place",
                ));
            } else {
                return Err(unreadable(&path, "it is neither a file nor a folder"));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, planted: String, metadata: &fs::Metadata) -> Result<()> {
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.bytes > BYTE_LIMIT {
            return Err(unreadable(path, format!("with it the folder holds more than {} MiB", BYTE_LIMIT >> 20)));
        }
        if self.files.len() == FILE_LIMIT {
            return Err(unreadable(path, format!("with it the folder holds more than {FILE_LIMIT} files")));
        }
        let body = fs::read(path).map_err(|error| unreadable(path, error))?;
        self.files.push((planted, File::new(body).executable(is_executable(metadata))));
        Ok(())
    }
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::redroom("folder_unreadable", format!("`{}` cannot be planted: {why}", path.display()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::body::Body;
    use super::*;

    fn fixture() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin/deep")).unwrap();
        fs::write(folder.path().join(".env"), "T=${secrets.t}").unwrap();
        fs::write(folder.path().join("bin/run"), "#!/bin/sh").unwrap();
        fs::set_permissions(folder.path().join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("bin/deep/raw"), b"\xff").unwrap();
        folder
    }

    #[test]
    fn a_folder_is_read_whole_and_in_order_as_bytes_with_the_executable_bit() {
        let folder = fixture();
        let files = dir(folder.path()).into_files().unwrap();
        let seen: Vec<_> = files.iter().map(|(path, file)| (path, file.executable)).collect();
        assert_eq!(seen, [(".env", false), ("bin/deep/raw", false), ("bin/run", true)]);
        assert!(files.iter().all(|(_, file)| matches!(file.body, Body::Bytes(_))));
    }

    #[test]
    fn only_when_asked_the_texts_become_templates() {
        let folder = fixture();
        let files = dir(folder.path()).with_secrets().under("/home/agent").read().unwrap();
        let texts: Vec<_> =
            files.iter().filter(|(_, file)| matches!(file.body, Body::Text(_))).map(|(path, _)| path).collect();
        assert_eq!(texts, ["/home/agent/.env", "/home/agent/bin/run"]);
    }

    #[test]
    fn a_symbolic_link_is_refused_by_name() {
        let folder = fixture();
        symlink("/etc/passwd", folder.path().join("bin/link")).unwrap();
        let error = dir(folder.path()).read().unwrap_err();
        assert_eq!(error.code(), "folder_unreadable");
        assert!(error.detail().contains("bin/link") && error.detail().contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_relative_path_starts_at_the_crate() {
        let files = dir("src/planting").read().unwrap();
        assert!(files.iter().any(|(path, _)| path == "dir.rs"));
        assert!(dir("no/such/folder").read().unwrap_err().detail().contains("no/such/folder"));
    }

    #[test]
    fn a_folder_too_deep_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/".repeat(DEPTH_LIMIT + 1))).unwrap();
        assert!(dir(folder.path()).read().unwrap_err().detail().contains("folders deep"));
    }
}
