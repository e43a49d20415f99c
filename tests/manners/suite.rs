//! The suite as a child process, in folders of its own.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::engine::{self, Container};
use crate::fixture;

const ASKED: &str = "MANNERS_SUITE";
/// A whole suite with an engine: the first one may have to make images.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this process is to be the suite.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

/// Folders that belong to one test, and suites that run in them.
pub(crate) struct Place(TempDir);

/// A suite that runs.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Drop for Running {
    /// A test that fails leaves no suite behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a suite came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("run")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The suite with these arguments; nothing of this process's own settings reaches it.
    pub(crate) fn suite(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDROOM_")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .env(ASKED, "1")
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("REDROOM_OUT", self.path("out"))
            .env(fixture::MARK, self.mark())
            .env("RUST_BACKTRACE", "0")
            .env_remove("CARGO_MANIFEST_DIR")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        start(&mut self.suite(arguments)).end(PATIENCE)
    }

    /// The file that marks the middle of a turn.
    pub(crate) fn mark(&self) -> PathBuf {
        self.path("mark")
    }

    /// The containers that suites in this place have made.
    pub(crate) fn containers(&self) -> Vec<Container> {
        match std::fs::read_to_string(self.path("run/redroom/sessions/id")) {
            Ok(id) => engine::containers(&id),
            Err(_) => Vec::new(),
        }
    }
}

pub(crate) fn start(command: &mut Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    Running { child, started: Instant::now(), out: Some(reader(out)), err: Some(reader(err)) }
}

fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn printed(reader: Option<JoinHandle<String>>) -> String {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends; past its time it is killed, and the test fails.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let deadline = Instant::now() + patience;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        if status.is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        let took = self.started.elapsed();
        let ended = Ended {
            code: status.and_then(|status| status.code()),
            out: printed(self.out.take()),
            err: printed(self.err.take()),
            took,
        };
        assert!(status.is_some(), "still running after {patience:?}: {ended:?}");
        ended
    }
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
