//! Looks at a sandbox four times a second where the kernel does not hold it to its limits as a whole.
//!
//! What it can miss, and why such a limit is a best effort: a quarter of a second; memory of files that have no name and are
//! mapped nowhere (`memfd_create`); a process that is passed from one parent to another in the moment that it is looked at.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{fstat, fstatfs};
use rustix::process::Pid;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::processes::{Family, Host, Table};

const PERIOD: Duration = Duration::from_millis(250);
/// `TMPFS_MAGIC`: of other file systems, what they hold is not memory.
const TMPFS: u64 = 0x0102_1994;

/// What a sandbox may use, all of its processes together. `None` is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Memory of processes and trees, in bytes.
    pub(crate) memory: Option<u64>,
    /// Processes and threads, the jail's own included.
    pub(crate) threads: Option<u32>,
}

/// What was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// Memory, in bytes.
    Memory {
        /// What processes and trees used.
        used: u64,
        /// What they may use.
        most: u64,
    },
    /// Processes and threads.
    Threads {
        /// At least as many were there.
        counted: u32,
        /// So many may be.
        most: u32,
    },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exceeded::Memory { used, most } => write!(f, "it used {used} bytes of memory, of {most} that it may"),
            Exceeded::Threads { counted, most } => {
                write!(f, "it had {counted} processes and threads, of {most} that it may")
            }
        }
    }
}

/// Watches until it is dropped, the sandbox has ended, or something was too much.
#[derive(Debug)]
pub(crate) struct Watchdog {
    _task: AbortOnDropHandle<()>,
}

impl Watchdog {
    /// Watches `root` and all processes below it, and the trees in memory that these descriptors are in. `exceeded` is called once, at
    /// most, and has to end the sandbox. Call it in a tokio run time, while `root` is known to live.
    pub(crate) fn start(
        root: Pid,
        bounds: Bounds,
        trees: Vec<OwnedFd>,
        exceeded: impl FnOnce(Exceeded) + Send + 'static,
    ) -> Self {
        let root = root.as_raw_pid();
        let task = async move {
            let Some(started) = Host.process(root).map(|process| process.started) else { return };
            let trees = std::sync::Arc::new(trees);
            let mut ticks = interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let trees = trees.clone();
                let look = move || look(&Host, root, started, bounds, || in_memory(&trees));
                match tokio::task::spawn_blocking(look).await {
                    Ok(Look::Fine) => {}
                    Ok(Look::Exceeded(what)) => return exceeded(what),
                    Ok(Look::Ended) | Err(_) => return,
                }
            }
        };
        Watchdog { _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Fine,
    Ended,
    Exceeded(Exceeded),
}

/// Looks once. What is cheap to know is an upper bound; what is exact is asked only when that is too much.
fn look(table: &dyn Table, root: i32, started: u64, bounds: Bounds, trees: impl Fn() -> u64) -> Look {
    let Some(family) = Family::of(table, root, started, bounds.threads.unwrap_or(u32::MAX)) else { return Look::Ended };
    if let Some(most) = bounds.threads.filter(|most| family.threads > *most) {
        return Look::Exceeded(Exceeded::Threads { counted: family.threads, most });
    }
    let Some(most) = bounds.memory else { return Look::Fine };
    let files = trees();
    if family.resident(table).saturating_add(files) <= most {
        return Look::Fine;
    }
    let used = family.proportional(table).saturating_add(files);
    if used > most { Look::Exceeded(Exceeded::Memory { used, most }) } else { Look::Fine }
}

/// What the file systems of these folders hold, each counted once, in bytes.
fn in_memory(folders: &[OwnedFd]) -> u64 {
    let mut known = Vec::new();
    let mut held: u64 = 0;
    for folder in folders {
        let (Ok(stat), Ok(filesystem)) = (fstat(folder.as_fd()), fstatfs(folder.as_fd())) else { continue };
        if filesystem.f_type as u64 == TMPFS && !known.contains(&stat.st_dev) {
            known.push(stat.st_dev);
            let blocks = filesystem.f_blocks.saturating_sub(filesystem.f_bfree);
            held = held.saturating_add(blocks.saturating_mul(filesystem.f_bsize as u64));
        }
    }
    held
}

#[cfg(test)]
mod tests;
