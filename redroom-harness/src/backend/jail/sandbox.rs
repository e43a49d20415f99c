//! A live sandbox: commands run in it until it is frozen, and it is emptied when its first process is dead.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::task::block_in_place;

use super::exec::Commands;
use super::held::{Held, blocking};
use super::layout;
use super::limits::{Bounds, Exceeded, Watchdog};
use super::making::{Helper, Made};
use super::process::Processes;
use super::protocol::Landlock;
use super::refusal::{ThisSystem, without_landlock};
use super::tree::{self, Owners, Roots};
use crate::backend::{Exec, ExecEnd, Fate, ProgramFile, Sandbox, SandboxSpec, Sink, Visitor};
use crate::error::{Error, Result};

/// The user of the first slot's jail: in a range that systems give to nobody.
const FIRST_USER: u32 = 1_900_000_000;

/// Who lives in a slot's sandboxes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resident {
    /// A user that nobody else is: this process may be anybody.
    Given(u32),
    /// The user of this process, by another name.
    Own,
}

impl Resident {
    pub(super) fn of_slot(number: u32, privileged: bool) -> Self {
        if privileged { Resident::Given(FIRST_USER + number) } else { Resident::Own }
    }

    pub(super) fn is_privileged(self) -> bool {
        matches!(self, Resident::Given(_))
    }

    pub(super) fn owners(self) -> Owners {
        match self {
            Resident::Given(agent) => Owners::Given { agent },
            Resident::Own => Owners::own(),
        }
    }
}

/// A live sandbox.
pub(super) struct JailSandbox {
    commands: Commands,
    processes: Processes,
    trees: Mutex<Option<Trees>>,
    held: Held,
    /// Looks after what the kernel does not.
    _watchdog: Option<Watchdog>,
    exceeded: Arc<OnceLock<Exceeded>>,
    landlock: Landlock,
}

/// What it holds, seen from here.
#[derive(Clone)]
pub(super) struct Trees {
    /// What the agent can write to.
    pub(super) own: Arc<Roots>,
    /// Everything, as long as it lives.
    pub(super) all: Arc<Roots>,
}

/// Has a helper make a sandbox.
pub(super) async fn open(helper: Helper, program: &[ProgramFile], spec: SandboxSpec) -> Result<JailSandbox> {
    let env = environment(spec.env.clone());
    let made = helper.make(program, spec).await?;
    let exceeded = Arc::new(OnceLock::new());
    let watchdog = made.held.bounds().map(|bounds| watch(&made, bounds, exceeded.clone())).transpose()?;
    let Made { channel, processes, trees, held, landlock, .. } = made;
    let (commands, trees) = (Commands::new(channel, env), Mutex::new(Some(trees)));
    Ok(JailSandbox { commands, processes, trees, held, _watchdog: watchdog, exceeded, landlock })
}

fn watch(made: &Made, bounds: Bounds, exceeded: Arc<OnceLock<Exceeded>>) -> Result<Watchdog> {
    let failed = |error: io::Error| failed("watch a sandbox", &error);
    let trees = made.trees.own.folders().map(|folder| folder.try_clone_to_owned());
    let trees = trees.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let first = made.processes.first.descriptor().map_err(failed)?;
    Ok(Watchdog::start(made.helper, bounds, trees, move |what| {
        // Before anybody can ask why it died.
        let _ = exceeded.set(what);
        let _ = pidfd_send_signal(&first, Signal::KILL);
    }))
}

/// What a sandbox of any kind has; and git reads the jail's own system settings, wherever this machine's git looks for some.
fn environment(mut env: Vec<(String, String)>) -> Vec<(String, String)> {
    // As an engine sets it.
    env.push(("HOSTNAME".to_owned(), layout::HOST_NAME.to_owned()));
    env.push(("GIT_CONFIG_SYSTEM".to_owned(), "/etc/gitconfig".to_owned()));
    env
}

#[async_trait]
impl Sandbox for JailSandbox {
    async fn exec(&self, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        self.commands.run(&self.processes, exec, sink).await
    }

    async fn read_file(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(trees) = self.trees() else { return Ok(None) };
        let roots = if trees.own.covers(path) { trees.own } else { trees.all };
        let path = path.to_owned();
        blocking(move || tree::read_file(&roots, &path, limit)).await
    }

    fn best_effort(&self) -> Vec<String> {
        let limits = self.held.best_effort().iter().map(ToString::to_string);
        let landlock = match self.landlock {
            Landlock::Full => None,
            Landlock::Part => {
                Some("this kernel's Landlock is too old to keep signals and abstract sockets in".to_owned())
            }
            Landlock::Lacking => Some(without_landlock(&ThisSystem)),
        };
        limits.chain(landlock).collect()
    }

    async fn freeze(&self) -> Result<()> {
        self.processes.end_first().await
    }

    async fn fate(&self) -> Result<Fate> {
        let exceeded = self.exceeded.get();
        let memory_exceeded = self.held.memory_exceeded() || matches!(exceeded, Some(Exceeded::Memory { .. }));
        let Some(exit_code) = self.commands.end_of_sandbox() else { return Ok(Fate::Alive { memory_exceeded }) };
        let detail = match (exceeded, memory_exceeded) {
            (Some(exceeded), _) => exceeded.to_string(),
            (None, true) => "its first process ended after something in it was killed for memory".to_owned(),
            (None, false) => "its first process ended".to_owned(),
        };
        Ok(Fate::Dead { exit_code, memory_exceeded, detail })
    }

    async fn collect(&self, roots: &[String], visitor: &mut dyn Visitor) -> Result<()> {
        let Some(trees) = self.trees() else { return Ok(()) };
        // On this very thread, for the visitor is borrowed.
        block_in_place(|| tree::collect(&trees.own, roots, visitor))
    }

    async fn remove(&self) -> Result<()> {
        if let Err(error) = self.processes.end_first().await {
            // A control group reaches what does not end.
            if !self.held.kill_all() {
                return Err(error);
            }
        }
        // The helper ends now, by itself.
        drop(self.held.let_go());
        // The memory that they are made of is free when the last descriptor is closed.
        drop(self.trees.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}

impl JailSandbox {
    /// Whether it took the kernel's time to put it under its limits.
    pub(super) fn is_in_groups(&self) -> bool {
        self.held.has_groups()
    }

    fn trees(&self) -> Option<Trees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) fn failed(what: &str, error: &io::Error) -> Error {
    Error::backend("sandbox_failed", format!("cannot {what}: {error}"))
}
