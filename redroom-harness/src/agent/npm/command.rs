//! `npm pack`, run to its end or its time, and what its failures mean to the user.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Package;
use crate::error::{By, Call, Error, Result};
use crate::excerpt::Excerpt;

/// Code of the error of a program that could not be fetched.
pub(super) const FETCH_FAILED: &str = "agent_fetch_failed";

/// How much of what npm prints is kept for an error: its end.
const LAST_WORDS: usize = 2_000;

/// npm, as it is on this machine.
pub(super) struct Npm {
    /// Program and first arguments.
    pub(super) command: Vec<OsString>,
    pub(super) patience: Duration,
}

impl Npm {
    pub(super) fn of_this_machine(patience: Duration) -> Self {
        Npm { command: vec!["npm".into()], patience }
    }

    /// Fetches a package's archive into `folder`. npm's environment is this process's: its settings are the user's.
    pub(super) async fn pack(&self, wanted: &Package, folder: &Path) -> Result<PathBuf> {
        let Package { title, package, version, .. } = wanted;
        let version = &version.0;
        let missing = |why: &str| missing(wanted, why);
        let (program, arguments) = self.command.split_first().ok_or_else(|| missing("no command"))?;
        let child = Command::new(program)
            .args(arguments)
            .args(["pack", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
            .arg(format!("{package}@{version}"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing("it is not on the PATH"),
                _ => missing(&error.to_string()),
            })?;
        let mut running = Running::new(child);
        let failed = |why: &str, words: &str, exit_code: Option<i32>| {
            let code = if exit_code.is_some() { meaning(words) } else { FETCH_FAILED };
            let hint = match code {
                FETCH_FAILED => "check npm's settings and the network, or name a program that you have",
                _ => "check the version",
            };
            Error::new(By::Agent, code, format!("{title} {version} could not be fetched: npm {why}; {hint}: {words}"))
                .with_call(Call {
                    command: Some(format!("npm pack {package}@{version}")),
                    exit_code: exit_code.map(i64::from),
                    ..Call::default()
                })
        };
        let words = match timeout(self.patience, running.end()).await {
            Err(_) => return Err(failed(&format!("took longer than {} s", self.patience.as_secs()), "", None)),
            Ok(Err(error)) => return Err(failed("was lost", &error.to_string(), None)),
            Ok(Ok((status, words))) if !status.success() => {
                let ended = status.code().map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
                return Err(failed(&ended, words.trim(), status.code()));
            }
            Ok(Ok((_, words))) => words,
        };
        the_archive(folder).map_err(|error| failed("fetched nothing", &error.to_string(), None)).inspect_err(|_| {
            tracing::debug!(words, "npm pack succeeded and left no archive");
        })
    }
}

fn missing(wanted: &Package, why: &str) -> Error {
    let Package { title, instead, .. } = wanted;
    let detail =
        format!("{title} is fetched with npm, which cannot be run ({why}); install Node.js with npm, or {instead}");
    Error::new(By::Agent, "npm_missing", detail)
}

/// What npm's own error codes say.
fn meaning(words: &str) -> &'static str {
    match words.split_ascii_whitespace().any(|word| matches!(word, "ETARGET" | "E404")) {
        true => "unknown_agent_version",
        false => FETCH_FAILED,
    }
}

/// The one archive in a folder that was empty before.
fn the_archive(folder: &Path) -> io::Result<PathBuf> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tgz") {
            return Ok(path);
        }
    }
    Err(io::Error::other("there is no archive where it should have put one"))
}

/// A child that is killed with all that it started when it is given up before its end.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Running { child, group }
    }

    /// Its end, and the last that it printed on standard error.
    async fn end(&mut self) -> io::Result<(std::process::ExitStatus, String)> {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let (_, words, status) = tokio::join!(last_words(out), last_words(err), self.child.wait());
        let status = status?;
        self.group = None;
        Ok((status, words?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The group may have ended by itself: there is nobody left to kill then.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn last_words(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut words = Excerpt::new(0, LAST_WORDS);
    if let Some(mut stream) = stream {
        let mut chunk = [0; 4096];
        loop {
            match stream.read(&mut chunk).await? {
                0 => break,
                count => words.push(&chunk[..count]),
            }
        }
    }
    Ok(words.text())
}
