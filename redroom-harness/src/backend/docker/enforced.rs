//! Which of a container's limits the engine enforces. One without control groups, as a rootless engine can be, takes every limit and
//! discards it without a word; what stands in for it is put here, and said.

use bollard::models::SystemInfo;
use serde::{Deserialize, Serialize};

use crate::backend::SandboxLimits;

/// What the engine's control groups hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enforced {
    memory: bool,
    swap: bool,
    pids: bool,
    cpus: bool,
}

impl Enforced {
    /// As the engine says it. What it says nothing of is not enforced.
    pub(crate) fn of(info: &SystemInfo) -> Self {
        let says = |field: Option<bool>| field == Some(true);
        Enforced {
            memory: says(info.memory_limit),
            swap: says(info.swap_limit),
            pids: says(info.pids_limit),
            cpus: says(info.cpu_cfs_quota),
        }
    }

    /// Limits of each process, where there is none over all of them.
    pub(crate) fn instead(self, limits: &SandboxLimits) -> Vec<(&'static str, u64)> {
        let memory = (!self.memory).then_some(("data", limits.memory));
        let pids = (!self.pids).then_some(("nproc", limits.pids.into()));
        memory.into_iter().chain(pids).collect()
    }

    /// What is not enforced as a whole, what is done instead, and why: a line each.
    pub(crate) fn best_effort(self) -> Vec<String> {
        let lacking = [
            (self.memory, "memory: each process is limited"),
            (self.swap || !self.memory, "swap: memory without swap is held"),
            (self.pids, "pids: the agent's user is limited, over all runs on this engine together"),
            (self.cpus, "cpus: it may use all processors that there are"),
        ];
        let lacking = lacking.into_iter().filter(|(enforced, _)| !enforced);
        lacking.map(|(_, what)| format!("{what} (this engine has no control group for it)")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(memory: bool, swap: bool, pids: bool, cpus: bool) -> Enforced {
        Enforced::of(&SystemInfo {
            memory_limit: Some(memory),
            swap_limit: Some(swap),
            pids_limit: Some(pids),
            cpu_cfs_quota: Some(cpus),
            ..Default::default()
        })
    }

    const LIMITS: SandboxLimits =
        SandboxLimits { cpus: 2.0, memory: 1 << 30, pids: 100, file_size: 1 << 30, open_files: 1024 };

    #[test]
    fn an_engine_with_control_groups_needs_nothing_in_their_place() {
        let enforced = engine(true, true, true, true);
        assert_eq!((enforced.instead(&LIMITS), enforced.best_effort()), (vec![], vec![]));
    }

    #[test]
    fn without_control_groups_processes_are_limited_and_it_is_said() {
        for enforced in [engine(false, false, false, false), Enforced::of(&SystemInfo::default())] {
            assert_eq!(enforced.instead(&LIMITS), [("data", 1 << 30), ("nproc", 100)]);
            let said = enforced.best_effort();
            let limits: Vec<_> = said.iter().map(|line| line.split(':').next().unwrap()).collect();
            assert_eq!(limits, ["memory", "pids", "cpus"]);
        }
    }

    #[test]
    fn swap_that_is_not_counted_is_said_where_memory_is_held() {
        assert_eq!(engine(true, false, true, true).best_effort().len(), 1);
        assert!(engine(true, false, true, true).best_effort()[0].starts_with("swap: "));
    }
}
