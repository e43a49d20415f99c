//! What holds a sandbox to its limits: control groups where this process may make some, else limits of each process and a
//! watchdog over all of them.
//!
//! What the kernel does not enforce is named ([`Limiter::best_effort`]), never hidden. Knows processes, bytes and processors;
//! not what runs in a sandbox.

mod group;
mod hierarchy;
mod processes;
mod rlimits;
mod room;
mod watchdog;

use std::fmt;
use std::fs::File;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

pub(crate) use group::sweep;
pub(crate) use hierarchy::Hierarchies;
pub(crate) use rlimits::Rlimits;
pub(crate) use room::Room;
pub(crate) use watchdog::{Bounds, Exceeded, Watchdog};

use crate::backend::SandboxLimits;
use crate::error::{Error, Result};
use group::Group;
use hierarchy::Controller;

/// The jail's own processes in a sandbox: its helper and its first one.
const OUR_PROCESSES: u32 = 2;

/// What holds one sandbox to its limits.
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: SandboxLimits,
    groups: Vec<Made>,
    best_effort: Vec<BestEffort>,
    /// The processors that the sandbox is put on, where nothing shares out their time.
    processors: Option<Vec<usize>>,
}

/// A group, and what it holds.
#[derive(Debug)]
struct Made {
    group: Group,
    controllers: Vec<Controller>,
}

/// A limit that the kernel does not enforce for the sandbox as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BestEffort {
    /// Which.
    pub(crate) limit: Limit,
    /// What is done in its place.
    pub(crate) instead: String,
    /// Why it cannot be enforced here.
    pub(crate) why: String,
}

/// A limit of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// Memory of all processes and files together, swap included.
    Memory,
    /// Swap alone: the memory proper is held.
    Swap,
    /// Processes and threads.
    Pids,
    /// Time on processors.
    Cpus,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Memory => "memory",
            Limit::Swap => "swap",
            Limit::Pids => "pids",
            Limit::Cpus => "cpus",
        })
    }
}

impl fmt::Display for BestEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.limit, self.instead, self.why)
    }
}

impl Limiter {
    /// Makes what can be made here: a control group in each hierarchy that has a controller for us. `session` is a UUID, `name` is
    /// unique in it and made of ASCII letters, digits and hyphens.
    ///
    /// # Errors
    ///
    /// `invalid_group_name`. That no control group can be made is no error: see [`best_effort`](Self::best_effort).
    pub(crate) fn prepare(
        hierarchies: &Hierarchies,
        limits: &SandboxLimits,
        session: &str,
        name: &str,
    ) -> Result<Self> {
        let name = group::name(session, name).ok_or_else(|| {
            let why = "a session is a UUID, a name has ASCII letters, digits and hyphens";
            Error::redroom("invalid_group_name", format!("{session:?}, {name:?}: {why}"))
        })?;
        let mut limiter =
            Limiter { limits: limits.clone(), groups: Vec::new(), best_effort: Vec::new(), processors: None };
        for controller in Controller::ALL {
            let lacking = match limiter.engage(hierarchies, controller, &name) {
                Ok(None) => continue,
                Ok(Some(why)) => {
                    BestEffort { limit: Limit::Swap, instead: "memory without swap is held".to_owned(), why }
                }
                Err(why) => limiter.instead(controller, &name, why),
            };
            limiter.best_effort.push(lacking);
        }
        Ok(limiter)
    }

    /// What is done in place of a controller.
    fn instead(&mut self, controller: Controller, name: &str, why: String) -> BestEffort {
        let (limit, instead) = match controller {
            Controller::Memory => {
                (Limit::Memory, "each process is limited, and a watchdog looks at all of them four times a second")
            }
            Controller::Pids => (Limit::Pids, "its user is limited, and a watchdog counts four times a second"),
            Controller::Cpu => {
                self.processors = processors(self.limits.cpus, name);
                match self.processors {
                    Some(_) => (Limit::Cpus, "it starts on as many processors, rounded up"),
                    None => (Limit::Cpus, "it may use all processors that there are"),
                }
            }
        };
        BestEffort { limit, instead: instead.to_owned(), why }
    }

    /// Has a controller hold its limit. Gives why swap is not held, or why nothing is.
    fn engage(
        &mut self,
        hierarchies: &Hierarchies,
        controller: Controller,
        name: &str,
    ) -> std::result::Result<Option<String>, String> {
        let place = hierarchies.place(controller)?;
        if let Some(made) = self.groups.iter_mut().find(|made| made.group.folder().parent() == Some(&place.folder)) {
            let lacking = made.group.hold(controller, &self.limits)?;
            made.controllers.push(controller);
            return Ok(lacking);
        }
        let mut group = Group::create(&place, name)?;
        match group.hold(controller, &self.limits) {
            Ok(lacking) => {
                self.groups.push(Made { group, controllers: vec![controller] });
                Ok(lacking)
            }
            Err(why) => {
                // Nothing is in it, and nothing will be.
                let _ = group.remove();
                Err(why)
            }
        }
    }

    fn holds(&self, controller: Controller) -> bool {
        self.groups.iter().any(|made| made.controllers.contains(&controller))
    }

    /// Puts a process, and what it starts from now on, under all that was made, but for the groups whose doors it gives: those the
    /// process must enter by itself, with a zero. For a process that waits and has no threads.
    ///
    /// # Errors
    ///
    /// `limits_failed`: the process must not go on.
    pub(crate) fn admit(&self, pid: Pid) -> Result<Vec<File>> {
        let failed =
            |why: String| Error::backend("limits_failed", format!("the sandbox cannot be held to its limits: {why}"));
        let mut doors = Vec::new();
        for made in &self.groups {
            match made.group.door().map_err(failed)? {
                Some(door) => doors.push(door),
                None => made.group.admit(pid).map_err(failed)?,
            }
        }
        if let Some(on) = &self.processors {
            let mut set = CpuSet::new();
            on.iter().for_each(|processor| set.set(*processor));
            sched_setaffinity(Some(pid), &set).map_err(|errno| failed(format!("processors {on:?}: {errno}")))?;
        }
        Ok(doors)
    }

    /// Whether there is any group at all: joining one takes the kernel's time.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// What each process of the sandbox is to be limited to, beside the groups.
    pub(crate) fn rlimits(&self) -> Rlimits {
        Rlimits::new(&self.limits, self.holds(Controller::Memory), self.holds(Controller::Pids))
    }

    /// What a [`Watchdog`] has to look after; `None` where the kernel does.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let memory = (!self.holds(Controller::Memory)).then_some(self.limits.memory);
        let threads = (!self.holds(Controller::Pids)).then_some(self.limits.pids.saturating_add(OUR_PROCESSES));
        (memory.is_some() || threads.is_some()).then_some(Bounds { memory, threads })
    }

    /// The limits that the kernel does not enforce for the sandbox as a whole.
    pub(crate) fn best_effort(&self) -> &[BestEffort] {
        &self.best_effort
    }

    /// Whether the kernel has killed something in it for memory: until it is [closed](Self::close). Without a group it does not say; then
    /// the watchdog does.
    pub(crate) fn memory_exceeded(&self) -> bool {
        self.groups.iter().any(|made| made.group.killed_for_memory() > 0)
    }

    /// Kills every process that was admitted, with all that came from it, as far as a control group can. Whether one could.
    pub(crate) fn kill_all(&self) -> bool {
        self.groups.iter().any(|made| made.group.kill())
    }

    /// Removes the groups, with what is still in them. Blocks, at most five seconds for each. Idempotent. What is not closed is
    /// found by [`sweep`] when its session has ended.
    ///
    /// # Errors
    ///
    /// `limits_failed`, with the group that stays.
    pub(crate) fn close(&self) -> Result<()> {
        let failures: Vec<String> = self.groups.iter().filter_map(|made| made.group.remove().err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(Error::backend("limits_failed", failures.join("; "))) }
    }
}

/// `cpus` of the processors that this process may use, rounded up; not the same for every sandbox. `None` where that is all.
fn processors(cpus: f64, name: &str) -> Option<Vec<usize>> {
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    let wanted = cpus.ceil().max(1.0) as usize;
    if wanted >= allowed.len() {
        return None;
    }
    let first =
        name.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % allowed.len();
    Some(allowed.iter().cycle().skip(first).take(wanted).copied().collect())
}

#[cfg(test)]
mod tests;
