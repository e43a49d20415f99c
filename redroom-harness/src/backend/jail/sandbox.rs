//! A sandbox: made step by step with its helper, filled before it goes, emptied when its first process is dead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::timeout;

use super::channel::{Channel, in_memory};
use super::exec::Commands;
use super::explained;
use super::layout::{self, FIXED, Inhabitant, Layout, Machine};
use super::limits::{Bounds, Exceeded, Limiter, Room, Watchdog};
use super::protocol::{FromSandbox, Landlock, Spec, ToSandbox};
use super::refusal::{ThisSystem, without_landlock};
use super::sys::watched;
use super::tree::{self, Owners, Roots};
use crate::backend::{AGENT_UID, Exec, ExecEnd, Fate, PlacedKind, ProgramFile, Sandbox, SandboxSpec, Sink, Visitor};
use crate::error::{Error, Result};

/// How long the making of a sandbox may take, and its end.
const PATIENCE: Duration = Duration::from_secs(30);
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

    fn owners(self) -> Owners {
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
    limiter: Arc<Limiter>,
    /// Looks after what the kernel does not.
    _watchdog: Option<Watchdog>,
    exceeded: Arc<OnceLock<Exceeded>>,
    landlock: Landlock,
}

/// What it holds, seen from here.
#[derive(Clone)]
struct Trees {
    /// What the agent can write to.
    own: Arc<Roots>,
    /// Everything, as long as it lives.
    all: Arc<Roots>,
}

/// The processes of ours that a sandbox hangs on.
#[derive(Debug)]
pub(super) struct Processes {
    helper: Process,
    first: Process,
}

/// A descriptor of a process: no other can be meant by it. The process ends with this value.
#[derive(Debug)]
struct Process(AsyncFd<OwnedFd>);

/// Makes a sandbox with the helper at the other end.
pub(super) async fn open(
    resident: Resident,
    session: &str,
    socket: OwnedFd,
    program: &[ProgramFile],
    spec: SandboxSpec,
) -> Result<JailSandbox> {
    let limiter = Arc::new(Limiter::prepare(&spec.limits, session, &spec.run)?);
    let made = match timeout(PATIENCE, make(resident, socket, program, spec, &limiter)).await {
        Ok(made) => made,
        Err(_) => Err(failed("make a sandbox", &io::ErrorKind::TimedOut.into())),
    };
    match made {
        Ok(made) => {
            let exceeded = Arc::new(OnceLock::new());
            let watchdog = limiter.bounds().map(|bounds| made.watch(bounds, exceeded.clone()));
            let Made { commands, processes, trees, landlock, .. } = made;
            let trees = Mutex::new(Some(trees));
            Ok(JailSandbox {
                commands,
                processes,
                trees,
                limiter,
                _watchdog: watchdog.transpose()?,
                exceeded,
                landlock,
            })
        }
        Err(error) => {
            // Its processes have ended, or are about to.
            if let Err(error) = blocking(move || limiter.close()).await {
                tracing::warn!(%error, "the next start will sweep it");
            }
            Err(error)
        }
    }
}

/// A sandbox that is ready.
struct Made {
    commands: Commands,
    processes: Processes,
    trees: Trees,
    helper: Pid,
    landlock: Landlock,
}

impl Made {
    fn watch(&self, bounds: Bounds, exceeded: Arc<OnceLock<Exceeded>>) -> Result<Watchdog> {
        let failed = |error: io::Error| failed("watch a sandbox", &error);
        let trees = self.trees.own.folders().map(|folder| folder.try_clone_to_owned());
        let trees = trees.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let first = self.processes.first.0.get_ref().try_clone().map_err(failed)?;
        Ok(Watchdog::start(self.helper, bounds, trees, move |what| {
            // Before anybody can ask why it died.
            let _ = exceeded.set(what);
            let _ = pidfd_send_signal(&first, Signal::KILL);
        }))
    }
}

async fn make(
    resident: Resident,
    socket: OwnedFd,
    program: &[ProgramFile],
    spec: SandboxSpec,
    limiter: &Limiter,
) -> Result<Made> {
    let making = |error: io::Error| failed("make a sandbox", &error);
    let channel = Channel::new(socket).map_err(making)?;
    let id = match resident {
        Resident::Given(user) => user,
        Resident::Own => AGENT_UID,
    };
    let inhabitant = Inhabitant { id, program };
    let planned = layout::plan(&Machine, inhabitant, spec.entries)?;

    let (FromSandbox::Helper { pid }, [helper]) = next(&channel, resident).await? else { return Err(out_of_order()) };
    let helper = Process(watched(helper, Interest::READABLE).map_err(making)?);
    let pid = Pid::from_raw(pid).ok_or_else(out_of_order)?;
    limiter.admit(pid)?;
    let room = Room::of(&spec.limits);
    let order = in_memory(&Spec {
        user: resident.is_privileged().then_some(id),
        limits: limiter.rlimits().values().to_vec(),
        room: room.bytes + planted_bytes(&planned),
        files: room.files + planned.own.len() as u64,
        steps: planned.steps.clone(),
    });
    let order = order.map_err(making)?;
    channel.send(&ToSandbox::Make, &[order.as_fd()]).await.map_err(making)?;
    let (FromSandbox::First, [first]) = next(&channel, resident).await? else { return Err(out_of_order()) };
    let first = Process(watched(first, Interest::READABLE).map_err(making)?);
    let (FromSandbox::Built, [own, fixed]) = next(&channel, resident).await? else { return Err(out_of_order()) };
    let owners = resident.owners();
    let trees = blocking(move || plant(planned, &own, fixed, owners)).await?;
    channel.send(&ToSandbox::Go, &[]).await.map_err(making)?;
    let (FromSandbox::Ready(landlock), [root]) = next(&channel, resident).await? else { return Err(out_of_order()) };
    let all = Arc::new(Roots::new([(String::new(), root)], owners)?);
    let processes = Processes { helper, first };
    let trees = Trees { own: Arc::new(trees), all };
    Ok(Made { commands: Commands::new(channel, environment(spec.env)), processes, trees, helper: pid, landlock })
}

/// The next message, with as many descriptors as belong to it.
async fn next<const N: usize>(channel: &Channel, resident: Resident) -> Result<(FromSandbox, [OwnedFd; N])> {
    let received = channel.receive().await.map_err(|error| failed("make a sandbox", &error))?;
    match received {
        Some((FromSandbox::Refused(refused), _)) => Err(explained(&refused, resident)),
        Some((message, fds)) => match fds.try_into() {
            Ok(fds) => Ok((message, fds)),
            Err(_) => Err(out_of_order()),
        },
        None => Err(failed("make a sandbox", &io::ErrorKind::UnexpectedEof.into())),
    }
}

/// What was planned, in its place; and the agent's trees.
fn plant(planned: Layout, own: &OwnedFd, fixed: OwnedFd, owners: Owners) -> Result<Roots> {
    let placing = |errno: Errno| failed("place files", &errno.into());
    let opened = planned.trees.into_iter().map(|path| open_tree(own.as_fd(), &path).map(|folder| (path, folder)));
    let trees = Roots::new(opened.collect::<Result<Vec<_>, _>>().map_err(placing)?, owners)?;
    tree::plant(&trees, &planned.own)?;
    tree::plant(&Roots::new([(FIXED.to_owned(), fixed)], owners)?, &planned.fixed)?;
    Ok(trees)
}

/// A folder among the agent's trees, made if it is not there.
fn open_tree(own: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(own, ".", flags, Mode::empty())?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        folder = openat(&folder, part, flags, Mode::empty())?;
    }
    Ok(folder)
}

/// What is planted does not count: whole pages are taken.
fn planted_bytes(planned: &Layout) -> u64 {
    let each = planned.own.iter().map(|entry| match &entry.kind {
        PlacedKind::File(content) => content.len() as u64 + 4096,
        PlacedKind::Folder => 4096,
    });
    each.sum()
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
        let limits = self.limiter.best_effort().iter().map(ToString::to_string);
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
        let memory_exceeded = self.limiter.memory_exceeded() || matches!(exceeded, Some(Exceeded::Memory { .. }));
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
        if let Err(error) = self.processes.end().await {
            // A control group reaches what does not end.
            if !self.limiter.kill_all() {
                return Err(error);
            }
        }
        let limiter = self.limiter.clone();
        blocking(move || limiter.close()).await?;
        // The memory that they are made of is free when the last descriptor is closed.
        drop(self.trees.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}

impl JailSandbox {
    fn trees(&self) -> Option<Trees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Processes {
    /// Kills the first process and with it all others of the sandbox, and waits until they are gone.
    pub(super) async fn end_first(&self) -> Result<()> {
        self.first.end().await
    }

    async fn end(&self) -> Result<()> {
        self.end_first().await?;
        self.helper.end().await
    }
}

impl Process {
    async fn end(&self) -> Result<()> {
        self.kill();
        // Readable when it has ended; a first process ends after all others of its namespace.
        match timeout(PATIENCE, self.0.readable()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failed("wait for the end of a sandbox", &error)),
            Err(_) => Err(failed("end a sandbox", &io::ErrorKind::TimedOut.into())),
        }
    }

    /// One that has ended cannot be killed again.
    fn kill(&self) {
        let _ = pidfd_send_signal(self.0.get_ref(), Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What waits for files, on a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(failed("work on a sandbox", &io::Error::other(error))),
    }
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::backend("sandbox_failed", format!("cannot {what}: {error}"))
}

fn out_of_order() -> Error {
    Error::backend("sandbox_failed", "a sandbox's helper said what was not asked")
}
