//! Which of a container's limits the engine enforces. One without control groups, as a rootless engine can be, takes every limit and
//! discards it without a word: where an agent could take the whole machine's memory or processes then, it is refused.

use bollard::models::SystemInfo;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What of the limits that can be done without is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enforced {
    swap: bool,
    cpus: bool,
}

impl Enforced {
    /// As the engine says it. What it says nothing of is not enforced.
    ///
    /// # Errors
    ///
    /// `docker_unavailable` for an engine that holds no sandbox to its memory or its processes.
    pub(crate) fn of(info: &SystemInfo) -> Result<Self> {
        let says = |field: Option<bool>| field == Some(true);
        let needed = [(info.memory_limit, "memory"), (info.pids_limit, "processes")];
        let lacking: Vec<_> = needed.iter().filter(|(held, _)| !says(*held)).map(|(_, what)| *what).collect();
        if lacking.is_empty() {
            return Ok(Enforced { swap: says(info.swap_limit), cpus: says(info.cpu_cfs_quota) });
        }
        let rootless = info.security_options.iter().flatten().any(|option| option.contains("name=rootless"));
        let todo = match rootless {
            true => {
                "a rootless engine needs control groups of version 2 that are handed to its user (`docker info` shows `Cgroup \
                 Driver: systemd`): have the system boot with them, use an engine of root's, or choose the jail backend"
            }
            false => "have its kernel count them (`docker info` warns of it), or choose the jail backend",
        };
        Err(Error::backend(
            "docker_unavailable",
            format!(
                "the engine discards limits of {}: an agent could take all that the machine has; {todo}",
                lacking.join(" and ")
            ),
        ))
    }

    /// What is not enforced, and what is done instead: a line each.
    pub(crate) fn best_effort(self) -> Vec<String> {
        let limits = [
            (self.swap, "swap: memory without swap is held"),
            (self.cpus, "cpus: it may use all processors that there are"),
        ];
        let lacking = limits.into_iter().filter(|(held, _)| !held);
        lacking.map(|(_, what)| format!("{what} (the engine discards this limit)")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(memory: bool, swap: bool, pids: bool, cpus: bool) -> SystemInfo {
        SystemInfo {
            memory_limit: Some(memory),
            swap_limit: Some(swap),
            pids_limit: Some(pids),
            cpu_cfs_quota: Some(cpus),
            ..Default::default()
        }
    }

    #[test]
    fn an_engine_that_holds_everything_has_nothing_to_say() {
        assert_eq!(Enforced::of(&engine(true, true, true, true)).unwrap().best_effort(), [""; 0]);
    }

    #[test]
    fn one_that_would_let_an_agent_take_the_machine_is_refused_with_what_to_do() {
        let rootless = SystemInfo {
            security_options: Some(vec!["name=seccomp,profile=builtin".to_owned(), "name=rootless".to_owned()]),
            ..engine(false, false, false, false)
        };
        for (info, words) in [
            (rootless, &["limits of memory and processes", "version 2", "jail backend"][..]),
            (engine(false, true, true, true), &["limits of memory:", "docker info"]),
            (engine(true, true, false, true), &["limits of processes:"]),
            (SystemInfo::default(), &["limits of memory and processes"]),
        ] {
            let error = Enforced::of(&info).unwrap_err();
            assert_eq!(error.code(), "docker_unavailable");
            assert!(words.iter().all(|word| error.detail().contains(word)), "{error}");
        }
    }

    #[test]
    fn what_a_run_can_do_without_is_said() {
        let said = Enforced::of(&engine(true, false, true, false)).unwrap().best_effort();
        let limits: Vec<_> = said.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(limits, ["swap", "cpus"]);
    }
}
