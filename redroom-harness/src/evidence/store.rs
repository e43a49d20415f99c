//! A run's evidence folder: owner-only, written as things come, bounded, visible whatever an agent said. Nothing that it names decides a path
//! here. A
//! file that lacks something is remembered, for whoever makes the result.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::visible::visible_json;

/// The most that one file which grows with the agent's activity may weigh; what comes after it is counted.
const FILE_LIMIT: u64 = 256 * 1024 * 1024;

/// A run's evidence folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    files: Mutex<BTreeMap<String, Growing>>,
    limit: u64,
}

/// A file that is added to.
#[derive(Debug)]
enum Growing {
    Open {
        file: File,
        written: u64,
    },
    /// Something could not be written: nothing more is, so that what is there is a beginning without gaps.
    Closed {
        why: String,
    },
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
                Ok(()) => return Ok(Store { folder, files: Mutex::default(), limit: FILE_LIMIT }),
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
        match serde_json::to_string(value) {
            Ok(line) => self.extend(file, format!("{}\n", visible_json(&line)).as_bytes()),
            Err(error) => {
                self.files().insert(file.to_owned(), Growing::Closed { why: format!("an entry is no JSON: {error}") });
            }
        }
    }

    /// Adds bytes to a file.
    pub(crate) fn extend(&self, file: &str, bytes: &[u8]) {
        let mut files = self.files();
        let growing = files.entry(file.to_owned()).or_insert_with(|| match self.open(file) {
            Ok(file) => Growing::Open { file, written: 0 },
            Err(error) => Growing::Closed { why: format!("it could not be made: {error}") },
        });
        let Growing::Open { file: open, written } = growing else { return };
        *written += bytes.len() as u64;
        let why = match *written > self.limit {
            true => format!("it is full with {} bytes", self.limit),
            false => match open.write_all(bytes) {
                Ok(()) => return,
                Err(error) => format!("it could not be written: {error}"),
            },
        };
        tracing::warn!(file, why, "a file of the evidence is incomplete");
        *growing = Growing::Closed { why };
    }

    /// What is wrong with the files so far: one error for each that lacks something.
    pub(crate) fn shortfalls(&self) -> Vec<Error> {
        let files = self.files();
        let closed = files.iter().filter_map(|(file, growing)| match growing {
            Growing::Open { .. } => None,
            Growing::Closed { why } => Some((file, why)),
        });
        let error = |(file, why): (&String, &String)| {
            Error::redroom("evidence_incomplete", format!("{file} in the evidence folder lacks what came last: {why}"))
        };
        closed.map(error).collect()
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

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Growing>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
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
        first.append("hits.jsonl", &"\u{9b}2J");
        let file = first.folder().join("hits.jsonl");
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n\"\\u009b2J\"\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(first.names(), ["hits.jsonl"]);
    }

    #[test]
    fn a_file_that_lacks_something_is_told_once() {
        let parent = tempfile::tempdir().unwrap();
        let mut store = Store::create(parent.path(), "run").unwrap();
        store.limit = 10;
        fs::write(store.folder().join("taken.jsonl"), "").unwrap();
        std::os::unix::fs::symlink("/dev/full", store.folder().join("target")).unwrap();
        let full = OpenOptions::new().write(true).open(store.folder().join("target")).unwrap();
        store.files().insert("disk.jsonl".to_owned(), Growing::Open { file: full, written: 0 });
        for _ in 0..3 {
            store.append("fine.jsonl", &1);
            store.append("large.jsonl", &1234);
            store.append("taken.jsonl", &1);
            store.append("disk.jsonl", &1);
        }
        let told: Vec<_> =
            store.shortfalls().iter().map(|error| (error.code().to_owned(), error.detail().to_owned())).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        for ((code, detail), (file, why)) in told.iter().zip([
            ("disk.jsonl", "No space left"),
            ("large.jsonl", "full with 10 bytes"),
            ("taken.jsonl", "File exists"),
        ]) {
            assert_eq!(code, "evidence_incomplete");
            assert!(detail.starts_with(file) && detail.contains(why), "{detail}");
        }
        assert_eq!(fs::read_to_string(store.folder().join("large.jsonl")).unwrap(), "1234\n1234\n");
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
