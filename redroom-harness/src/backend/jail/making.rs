//! A sandbox while it is made: its helper is started and put under its limits, the root is built, files are planted, rights given up.
//!
//! Helper and first process speak over one socket, one after the other, and either can end at any step. What comes in place of the
//! word that is waited for is explained with what is known: a step that was refused, else how the first process ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::Pid;
use tokio::time::timeout;

use super::channel::{self, Channel, in_memory, is_gone};
use super::explained;
use super::held::{Held, Holder, blocking};
use super::layout::{self, FIXED, Inhabitant, Layout, Machine};
use super::limits::Room;
use super::process::{Process, Processes};
use super::protocol::{FromSandbox, Landlock, Spec, ToKeeper, ToSandbox};
use super::sandbox::{Resident, Trees, failed};
use super::tree::{self, Owners, Roots};
use crate::backend::{AGENT_UID, PlacedKind, ProgramFile, SandboxLimits, SandboxSpec};
use crate::error::{Error, Result};

/// How long a helper may take to start, and to make its sandbox.
const PATIENCE: Duration = Duration::from_secs(30);

/// A helper under its limits, and the first process that it started: they wait for what they are to make.
#[derive(Debug)]
pub(super) struct Helper {
    words: Words,
    processes: Processes,
    own: OwnedFd,
    fixed: OwnedFd,
    pid: Pid,
    limits: SandboxLimits,
    held: Held,
}

/// A sandbox that is ready.
pub(super) struct Made {
    pub(super) channel: Channel,
    pub(super) processes: Processes,
    pub(super) trees: Trees,
    pub(super) held: Held,
    pub(super) helper: Pid,
    pub(super) landlock: Landlock,
}

impl Helper {
    /// Has a slot's keeper start one.
    pub(super) async fn start(
        keeper: &Channel,
        resident: Resident,
        holder: &Holder,
        limits: &SandboxLimits,
    ) -> Result<Self> {
        let (ours, theirs) = channel::pair().map_err(making)?;
        let words = Words { channel: Channel::new(ours).map_err(making)?, resident };
        let asked = keeper.send(&ToKeeper::Sandbox, &[theirs.as_fd()]).await;
        asked.map_err(|error| failed("reach a slot's keeper", &error))?;
        drop(theirs);
        Self::greeted(words, holder, limits).await
    }

    async fn greeted(words: Words, holder: &Holder, limits: &SandboxLimits) -> Result<Self> {
        in_time(async {
            // While it starts.
            let held = holder.prepare(limits).await?;
            let (FromSandbox::Helper { pid }, [process]) = words.next().await? else { return Err(out_of_order()) };
            let process = Process::new(process).map_err(making)?;
            let pid = Pid::from_raw(pid).ok_or_else(out_of_order)?;
            let doors = held.admit(pid).await?;
            let doors: Vec<BorrowedFd<'_>> = doors.iter().map(AsFd::as_fd).collect();
            words.say(&ToSandbox::Begin, &doors).await?;
            let (FromSandbox::First, [first, own, fixed]) = words.next().await? else { return Err(out_of_order()) };
            let processes = Processes { _helper: process, first: Process::new(first).map_err(making)? };
            Ok(Helper { words, processes, own, fixed, pid, limits: limits.clone(), held })
        })
        .await
    }

    /// Whether it is there still, and held to these limits.
    pub(super) fn fits(&self, limits: &SandboxLimits) -> bool {
        self.limits == *limits && !self.processes.first.has_ended()
    }

    /// Ends what nothing comes of any more.
    pub(super) async fn end(self) {
        let Helper { processes, held, .. } = self;
        drop(processes);
        if let Some(removal) = held.let_go() {
            // It says by itself what it could not do.
            let _ = removal.await;
        }
    }

    /// Makes the sandbox.
    pub(super) async fn make(self, program: &[ProgramFile], spec: SandboxSpec) -> Result<Made> {
        let Helper { words, processes, own, fixed, pid, held, .. } = self;
        match in_time(words.make(program, spec, &held, own, fixed)).await {
            Ok((trees, landlock)) => Ok(Made { channel: words.channel, processes, trees, held, helper: pid, landlock }),
            Err(error) if held.memory_exceeded() => {
                Err(error.map_detail(|detail| format!("{detail}; its memory limit is too small to start in")))
            }
            Err(error) => Err(error),
        }
    }
}

/// What is said while a sandbox is made.
#[derive(Debug)]
struct Words {
    channel: Channel,
    resident: Resident,
}

impl Words {
    async fn make(
        &self,
        program: &[ProgramFile],
        spec: SandboxSpec,
        held: &Held,
        own: OwnedFd,
        fixed: OwnedFd,
    ) -> Result<(Trees, Landlock)> {
        let id = match self.resident {
            Resident::Given(user) => user,
            Resident::Own => AGENT_UID,
        };
        let planned = layout::plan(&Machine, Inhabitant { id, program }, spec.entries)?;
        let room = Room::of(&spec.limits);
        let order = in_memory(&Spec {
            user: self.resident.is_privileged().then_some(id),
            limits: held.rlimits().values().to_vec(),
            room: room.bytes + planted_bytes(&planned),
            files: room.files + planned.own.len() as u64,
            steps: planned.steps.clone(),
        });
        let order = order.map_err(making)?;
        let owners = self.resident.owners();
        let trees = blocking(move || plant(planned, &own, fixed, owners)).await?;
        self.say(&ToSandbox::Make, &[order.as_fd()]).await?;
        let (FromSandbox::Built, [root]) = self.next().await? else { return Err(out_of_order()) };
        let all = Arc::new(Roots::new([(String::new(), root)], owners)?);
        let (FromSandbox::Ready(landlock), []) = self.next().await? else { return Err(out_of_order()) };
        Ok((Trees { own: Arc::new(trees), all }, landlock))
    }

    async fn say(&self, word: &ToSandbox, fds: &[BorrowedFd<'_>]) -> Result<()> {
        match self.channel.send(word, fds).await {
            // It has ended, and its last words wait here.
            Err(error) if is_gone(&error) => loop {
                self.receive().await?;
            },
            sent => sent.map_err(making),
        }
    }

    /// The next word, with as many descriptors as belong to it.
    async fn next<const N: usize>(&self) -> Result<(FromSandbox, [OwnedFd; N])> {
        let (word, fds) = self.receive().await?;
        fds.try_into().map(|fds| (word, fds)).map_err(|_| out_of_order())
    }

    /// The next word that is not its last.
    async fn receive(&self) -> Result<(FromSandbox, Vec<OwnedFd>)> {
        match self.channel.receive().await.map_err(making)? {
            Some((FromSandbox::Refused(refused), _)) => Err(explained(&refused, self.resident)),
            Some((FromSandbox::Ended(code), _)) => Err(ended(code)),
            Some(word) => Ok(word),
            None => Err(Error::backend("sandbox_failed", "a sandbox's helper ended while the sandbox was made")),
        }
    }
}

fn ended(code: i32) -> Error {
    let how = match code {
        code @ 129.. => format!("was killed by signal {}", code - 128),
        code => format!("ended with exit code {code}"),
    };
    Error::backend("sandbox_failed", format!("a sandbox's first process {how} while the sandbox was made"))
}

async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(making(io::ErrorKind::TimedOut.into())),
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

fn making(error: io::Error) -> Error {
    failed("make a sandbox", &error)
}

fn out_of_order() -> Error {
    Error::backend("sandbox_failed", "a sandbox's helper said what was not asked")
}

#[cfg(test)]
mod tests;
