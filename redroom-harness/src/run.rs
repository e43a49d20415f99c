//! One run: an agent in a sandbox, and what a test does with it.
//!
//! Every path out of a run goes through [`Run::finish`]: it freezes, collects, removes and drains, in this order, in a task
//! of its own, so that no time-out or panic of a test leaves a sandbox behind or loses evidence.

mod admission;
mod answer;
mod claims;
mod finish;
mod gathered;
mod ledger;
mod moments;
mod output;
mod read_path;
mod recorder;
mod start;
mod surroundings;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redroom_sidecar::search::redact_secrets;
use redroom_sidecar::wire::{Hit, Octets};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::agent::{Agent, Printed, Turn, not_startable};
use crate::backend::{Ended, Exec, ExecEnd, PlacedEntry, Sandbox, WORKSPACE};
use crate::error::{By, Call, Error, Result};
use crate::evidence::{Journal, ModelCall, RecordedToolCall, RunResult};
use crate::limits::{CheckedLimits, TURN_OUTPUT};
use crate::redroom::Session;
use crate::slot::Lease;

pub(crate) use moments::{Moment, Observer, Watched};
pub(crate) use read_path::ReadPath;
pub(crate) use start::start;
pub(crate) use surroundings::SYSTEM_BUNDLE;

/// How long an agent may take to tell its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(60);

/// A live run. Cheap to clone; all clones are the same run. When the last of them is dropped, the run is finished, and its
/// result written down: nobody can ask for it any more.
#[derive(Clone)]
pub struct Run(Arc<Held>);

/// A live run in the hands of those who can go on with it.
struct Held(Arc<Live>);

/// What a command in the sandbox came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecOutput {
    /// Its exit code: 128 + n for signal n, 126 and 127 where it could not be started.
    pub exit_code: i64,
    /// What it printed on standard output.
    pub stdout: Octets,
    /// What it printed on standard error.
    pub stderr: Octets,
}

/// What an attack planted, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted {
    pub(crate) secrets: Vec<String>,
    pub(crate) pages: Vec<String>,
    pub(crate) files: usize,
}

pub(crate) struct Live {
    session: Arc<Session>,
    id: String,
    name: String,
    agent: Arc<dyn Agent>,
    limits: CheckedLimits,
    secrets: BTreeMap<String, Vec<u8>>,
    /// What was placed, to compare with what is collected.
    placed: Vec<PlacedEntry>,
    /// What is collected: everything that the agent could have written.
    roots: Vec<String>,
    pages: Vec<String>,
    /// How many files the attack planted, redroom's own apart.
    planted_files: usize,
    journal: Arc<Journal>,
    recorder: Arc<recorder::Recorder>,
    sandbox: Box<dyn Sandbox>,
    lease: Mutex<Option<Lease>>,
    other_ports_unseen: Option<String>,
    turns: Mutex<Vec<Turn>>,
    /// Held by a turn or a command while it runs.
    busy: tokio::sync::Mutex<()>,
    /// Raised when the run must end: whatever runs in the sandbox is killed.
    stopping: watch::Sender<Option<Error>>,
    finished: watch::Sender<Option<Arc<RunResult>>>,
    finishing: Mutex<bool>,
    watchdog: Mutex<Option<tokio_util::task::AbortOnDropHandle<()>>>,
}

impl Run {
    /// The run's id: a UUID, the same as in labels and in the `x-redroom-run` header.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The attack's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A planted secret's value; `None` where no secret has this name.
    pub fn secret(&self, name: &str) -> Option<String> {
        self.0.secrets.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Sends a message to the agent and waits until its turn ends.
    ///
    /// # Errors
    ///
    /// `turn_in_progress` while another turn runs, `run_finished` after [`finish`](Self::finish); `turn_timeout`,
    /// `turn_output_too_large`, `storage_exceeded`, `lease_over`, `turn_failed` and the agent's own failures, which are also in the result's `errors`.
    pub async fn send(&self, message: impl AsRef<str>) -> Result<Turn> {
        self.0.0.turn(message.as_ref()).await.map_err(|error| self.0.journal.redactor().error(error))
    }

    /// Runs a shell command as the agent's user in the workspace: for preparations and checks by the test, not a turn.
    ///
    /// # Errors
    ///
    /// `exec_timeout` past the turn's time, `exec_output_too_large` past 64 MB, `run_finished`, and `turn_in_progress` while
    /// a turn runs.
    pub async fn exec(&self, command: impl AsRef<str>) -> Result<ExecOutput> {
        self.0.exec(command.as_ref()).await.map_err(|error| self.0.journal.redactor().error(error))
    }

    /// A file's content, or `None` where there is no regular file. Relative paths start in the workspace; links are not
    /// followed, neither at the end of the path nor above it.
    ///
    /// # Errors
    ///
    /// `invalid_path` with a `..` in it, or one that can be no path; `read_output_too_large` past 64 MB, `run_finished`.
    pub async fn read_file(&self, path: impl AsRef<str>) -> Result<Option<Vec<u8>>> {
        self.0.check_live()?;
        let path = ReadPath::parse(path.as_ref())?;
        let redactor = self.0.journal.redactor();
        let content =
            self.0.sandbox.read_file(path.as_str(), TURN_OUTPUT).await.map_err(|error| redactor.error(error))?;
        Ok(content.map(|content| redactor.bytes(content)))
    }

    /// What has reached the fake internet so far.
    pub fn hits(&self) -> Vec<Hit> {
        self.0.journal.hits()
    }

    /// What the tool hook has reported so far.
    pub fn tool_calls(&self) -> Vec<RecordedToolCall> {
        self.0.journal.tool_calls()
    }

    /// What the agent has asked its model so far.
    pub fn model_calls(&self) -> Vec<ModelCall> {
        self.0.journal.model_calls()
    }

    /// Ends the run and gives what it came to. A turn that still runs is waited for. Idempotent, from any task: every caller
    /// gets the same result.
    ///
    /// # Errors
    ///
    /// `finish_failed` where not even a result could be made; whatever else goes wrong is in the result's `errors`.
    pub async fn finish(&self) -> Result<Arc<RunResult>> {
        self.0.0.finish().await
    }

    /// Ends the run at once: what runs in the sandbox is killed, `why` is recorded, then it finishes.
    pub(crate) async fn cut_short(&self, why: Error) -> Result<Arc<RunResult>> {
        self.0.0.cut_short(why).await
    }

    /// Whether somebody has asked for its result.
    pub(crate) fn is_finished(&self) -> bool {
        !self.0.is_live()
    }

    /// Whether a turn or a command runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_live() && self.0.busy.try_lock().is_err()
    }

    /// `text` without the values of what was planted.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact_secrets(text, self.0.secrets.values())
    }

    /// What the attack planted, by name.
    pub(crate) fn planted(&self) -> Planted {
        Planted {
            secrets: self.0.secrets.keys().cloned().collect(),
            pages: self.0.pages.clone(),
            files: self.0.planted_files,
        }
    }

    /// The text as it may be shown: without the values that are held for this run.
    pub(crate) fn shown(&self, text: String) -> String {
        self.0.journal.redactor().text(text)
    }

    pub(crate) fn agent(&self) -> Arc<dyn Agent> {
        self.0.agent.clone()
    }

    /// Asks the agent's program for its version, and whether it is the one that was asked for.
    pub(crate) async fn version(&self, command: Vec<String>) -> Result<String> {
        let exec = Exec {
            argv: command,
            env: Vec::new(),
            stdin: bytes::Bytes::new(),
            cwd: WORKSPACE.to_owned(),
            timeout: VERSION_PATIENCE,
        };
        let mut output = output::WholeOutput::new(1 << 20);
        let end = self.0.sandbox.exec(exec, &mut output).await?;
        if let Some(error) = self.0.perished(&end).await {
            return Err(error);
        }
        if end.ended == Ended::Timeout {
            let words = format!("it did not tell its version within {} s", seconds(VERSION_PATIENCE));
            return Err(not_startable(self.0.agent.name(), None, &words));
        }
        let printed = Printed { exit_code: end.exit_code, out: &output.stdout, err: &output.stderr };
        self.0.agent.check_version(&printed)
    }
}

impl std::ops::Deref for Held {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Without a runtime the session's end finishes it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !*self.finishing() {
            let live = self.0.clone();
            runtime.spawn(async move { live.finish().await.map(drop) });
        }
    }
}

impl Live {
    /// As [`Run::cut_short`].
    pub(crate) async fn cut_short(self: &Arc<Self>, why: Error) -> Result<Arc<RunResult>> {
        self.stop(why);
        self.finish().await
    }

    /// Whether it has not been finished yet.
    pub(crate) fn is_live(&self) -> bool {
        self.finished.borrow().is_none()
    }

    fn check_live(&self) -> Result<()> {
        if *self.finishing() || self.finished.borrow().is_some() {
            return Err(Error::redroom(
                "run_finished",
                format!("run {} has been finished; everything that it left is in its result", self.name),
            ));
        }
        match self.stopping.borrow().clone() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Raises the flag that kills what runs in the sandbox; the first reason counts.
    fn stop(&self, why: Error) {
        if self.finished.borrow().is_some() {
            return;
        }
        // On record before anybody hears of it: whoever does may be at the result within a moment.
        self.stopping.send_if_modified(|stopping| {
            let first = stopping.is_none();
            if first {
                self.journal.error(why.clone());
                *stopping = Some(why);
            }
            first
        });
    }

    /// Waits until the run must end, and says why.
    async fn stopped(&self) -> Error {
        let mut stopping = self.stopping.subscribe();
        match stopping.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_else(crate::slot::stopped),
            Err(_) => crate::slot::stopped(),
        }
    }

    /// Records what made a turn or a command fail. Why the run was stopped is on record already.
    fn note(&self, error: &Error) {
        if self.stopping.borrow().as_ref() != Some(error) {
            self.journal.error(error.clone());
        }
    }

    /// How a command ended, unless this process hung for longer than its lease: then nothing that it sees of the sandbox counts.
    fn unless_it_hung(&self, ended: Result<ExecEnd>) -> Result<ExecEnd> {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(over) = lease.as_ref().and_then(|lease| lease.slot.link.lease_over()) else { return ended };
        drop(lease);
        self.stop(over.clone());
        // Somebody may have said it before, in other words.
        Err(self.stopping.borrow().clone().unwrap_or(over))
    }

    async fn exec(&self, command: &str) -> Result<ExecOutput> {
        self.check_live()?;
        let _busy = self.busy.try_lock().map_err(|_| turn_in_progress(&self.name))?;
        let exec = Exec {
            argv: vec!["/bin/bash".to_owned(), "-c".to_owned(), command.to_owned()],
            env: Vec::new(),
            stdin: bytes::Bytes::new(),
            cwd: WORKSPACE.to_owned(),
            timeout: self.limits.turn_timeout,
        };
        let mut output = output::WholeOutput::new(TURN_OUTPUT);
        let end = tokio::select! {
            end = self.sandbox.exec(exec, &mut output) => end,
            why = self.stopped() => Err(why),
        };
        let end = self.unless_it_hung(end).inspect_err(|error| self.note(error))?;
        let failed = |code: &'static str, detail: String| {
            let duration_ms = u64::try_from(end.duration.as_millis()).ok();
            let call = Call { exit_code: end.exit_code, duration_ms, ..Call::default() };
            Err(Error::new(By::Agent, code, detail).with_call(call))
        };
        match (end.ended, end.exit_code) {
            (Ended::Itself, Some(exit_code)) => {
                let clean = |bytes| Octets(self.journal.redactor().bytes(bytes));
                Ok(ExecOutput { exit_code, stdout: clean(output.stdout), stderr: clean(output.stderr) })
            }
            (Ended::Timeout, _) => failed(
                "exec_timeout",
                format!("the command ran past {} s and was killed", seconds(self.limits.turn_timeout)),
            ),
            (Ended::OutputLimit, _) => failed(
                "exec_output_too_large",
                format!("the command printed more than {TURN_OUTPUT} bytes and was killed"),
            ),
            (Ended::StorageLimit, _) => failed(STORAGE_EXCEEDED, storage_exceeded("the command")),
            (Ended::SandboxDied | Ended::Itself, _) => {
                failed("sandbox_died", "the sandbox ended under the command".to_owned())
            }
        }
    }

    fn turns(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finishing(&self) -> MutexGuard<'_, bool> {
        self.finishing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const STORAGE_EXCEEDED: &str = "storage_exceeded";

fn storage_exceeded(what: &str) -> String {
    format!(
        "{what} filled more of the disk than a sandbox may take, and the sandbox was ended; its files are in the result"
    )
}

fn turn_in_progress(name: &str) -> Error {
    Error::redroom(
        "turn_in_progress",
        format!("a turn or command of run {name} is still running; wait for it before you start the next"),
    )
}

fn seconds(duration: Duration) -> String {
    format!("{}", duration.as_secs_f64())
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.0.id).field("name", &self.0.name).finish_non_exhaustive()
    }
}
