//! Folders that belong to one test, and suites that run in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::engine::{self, Container};

const ASKED: &str = "CARGO_SUITE";

/// Whether this process is to be the suite.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

pub(crate) struct Place(TempDir);

/// What a suite came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("run")).unwrap();
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The suite with these arguments; nothing of this process's own settings reaches it.
    pub(crate) fn suite(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).stdin(Stdio::null()).current_dir(self.folder());
        self.settle(&mut command);
        command
    }

    /// Lets a command, and the suites that it starts, live in this place.
    pub(crate) fn settle(&self, command: &mut Command) {
        let ours =
            |name: &str| ["REDROOM_", "NEXTEST", "RUST_TEST_", "GITHUB_"].iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command
            .env(ASKED, "1")
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("REDROOM_OUT", self.path("out"))
            .env("RUST_BACKTRACE", "0")
            .env_remove("CARGO_MANIFEST_DIR");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.suite(arguments))
    }

    /// The containers that suites in this place have made.
    pub(crate) fn containers(&self) -> Vec<Container> {
        match std::fs::read_to_string(self.path("run/redroom/sessions/id")) {
            Ok(id) => engine::containers(&id),
            Err(_) => Vec::new(),
        }
    }
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    read(command.output().unwrap())
}

pub(crate) fn read(output: Output) -> Ended {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Ended {
    /// Fails unless it ended with this code and says all of this.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
    }
}

/// Waits for a condition.
#[track_caller]
pub(crate) fn until(what: &str, patience: Duration, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !reached() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// All files below a folder.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            folder if folder.is_dir() => files.extend(files_below(&folder)),
            file => files.push(file),
        }
    }
    files
}
