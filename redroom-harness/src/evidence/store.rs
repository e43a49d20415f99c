//! A run's evidence folder: owner-only, written as things come, bounded. Nothing that the agent names decides a path here.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::error::{Error, Result};

/// The most that one file which grows with the agent's activity may weigh; what comes after it is counted.
const FILE_LIMIT: u64 = 256 * 1024 * 1024;

/// A run's evidence folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    files: Mutex<HashMap<String, Growing>>,
}

#[derive(Debug)]
struct Growing {
    file: File,
    written: u64,
    full: bool,
}

impl Store {
    /// Makes the folder; one that exists already gets a number behind its name, so that no earlier evidence is touched.
    pub(crate) fn create(parent: &Path, name: &str) -> Result<Self> {
        let failed = |path: &Path, error: std::io::Error| {
            Error::redroom(
                "evidence_not_writable",
                format!(
                    "cannot make the evidence folder {}: {error}; set REDROOM_OUT to a folder of yours",
                    path.display()
                ),
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| failed(parent, error))?;
        for attempt in 1.. {
            let folder = match attempt {
                1 => parent.join(name),
                n => parent.join(format!("{name}.{n}")),
            };
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Store { folder, files: Mutex::default() }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 10_000 => {}
                Err(error) => return Err(failed(&folder, error)),
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a value as a line of JSON.
    pub(crate) fn append<T: Serialize>(&self, file: &'static str, value: &T) {
        match serde_json::to_vec(value) {
            Ok(mut line) => {
                line.push(b'\n');
                self.extend(file, &line);
            }
            Err(error) => tracing::warn!(%error, file, "an entry of the evidence could not be written as JSON"),
        }
    }

    /// Adds bytes to a file.
    pub(crate) fn extend(&self, file: &str, bytes: &[u8]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !files.contains_key(file) {
            match self.open(file) {
                Ok(opened) => {
                    files.insert(file.to_owned(), Growing { file: opened, written: 0, full: false });
                }
                Err(error) => {
                    tracing::warn!(%error, file, "a file of the evidence could not be made");
                    return;
                }
            }
        }
        let Some(growing) = files.get_mut(file) else { return };
        if growing.full {
            return;
        }
        if growing.written + bytes.len() as u64 > FILE_LIMIT {
            growing.full = true;
            tracing::warn!(file, limit = FILE_LIMIT, "a file of the evidence is full; the rest is only in the result");
            return;
        }
        growing.written += bytes.len() as u64;
        if let Err(error) = growing.file.write_all(bytes) {
            growing.full = true;
            tracing::warn!(%error, file, "a file of the evidence could not be written");
        }
    }

    /// Writes a whole file.
    pub(crate) fn write(&self, file: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.open(file)?.write_all(bytes)
    }

    /// The names of the files so far, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn open(&self, file: &str) -> std::io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.folder.join(file))
    }
}

/// A name for a folder, made of an attack's name: only what every file system takes, and never one that hides or climbs.
pub(crate) fn folder_name(attack: &str) -> String {
    let mut name: String = attack
        .replace("::", ".")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' })
        .take(120)
        .collect();
    while name.starts_with('.') {
        name.remove(0);
    }
    if name.is_empty() { "attack".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_is_its_owners_alone_and_never_an_earlier_one() {
        let parent = tempfile::tempdir().unwrap();
        let first = Store::create(&parent.path().join("run"), "attack").unwrap();
        let second = Store::create(&parent.path().join("run"), "attack").unwrap();
        assert_ne!(first.folder(), second.folder());
        assert_eq!(fs::metadata(first.folder()).unwrap().permissions().mode() & 0o777, 0o700);
        first.append("hits.jsonl", &1);
        first.append("hits.jsonl", &2);
        let file = first.folder().join("hits.jsonl");
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n2\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(first.names(), ["hits.jsonl"]);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_a_clear_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Store::create(file.path(), "attack").unwrap_err();
        assert_eq!(error.code(), "evidence_not_writable");
        assert!(error.detail().contains("REDROOM_OUT"), "{error}");
    }

    #[test]
    fn no_name_of_an_attack_leaves_the_folder() {
        assert_eq!(folder_name("web::setup_page"), "web.setup_page");
        assert_eq!(folder_name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(folder_name(""), "attack");
        assert_eq!(folder_name("..."), "attack");
        assert!(folder_name(&"x".repeat(500)).len() <= 120);
    }
}
