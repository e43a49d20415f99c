//! The limits of each process: what the kernel counts per process or per user.

use rustix::process::Resource;

use super::OUR_PROCESSES;
use crate::backend::SandboxLimits;

/// Agents' programs map this much before they do anything: with less, one was seen to end at once.
const LEAST_DATA: u64 = 1 << 30;

/// The process that holds a slot's network, the same user's.
const KEEPER: u32 = 1;

/// Limits for the first process of a sandbox, soft and hard; all others inherit them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rlimits(Vec<(u32, u64)>);

impl Rlimits {
    /// Files as they were asked for, no core dumps; memory and processes only where no control group counts them. The address
    /// space is never limited: JavaScript engines reserve far more of it than they use.
    ///
    /// Processes are counted per user, so let that user run nothing else: a user namespace, or a user of the jail's own.
    pub(super) fn new(limits: &SandboxLimits, memory_held: bool, pids_held: bool) -> Self {
        let mut all =
            vec![(Resource::Fsize, limits.file_size), (Resource::Nofile, limits.open_files), (Resource::Core, 0)];
        if !memory_held {
            all.push((Resource::Data, limits.memory.max(LEAST_DATA)));
        }
        if !pids_held {
            all.push((Resource::Nproc, limits.pids.saturating_add(OUR_PROCESSES + KEEPER).into()));
        }
        Rlimits(all.into_iter().map(|(resource, value)| (resource as u32, value)).collect())
    }

    /// Resource, as the kernel numbers it, and value.
    pub(crate) fn values(&self) -> &[(u32, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> SandboxLimits {
        SandboxLimits { cpus: 1.0, memory: 4 << 30, pids: 100, file_size: 1 << 20, open_files: 512 }
    }

    fn value(limits: &Rlimits, resource: Resource) -> Option<u64> {
        limits.values().iter().find(|(number, _)| *number == resource as u32).map(|(_, value)| *value)
    }

    #[test]
    fn processes_are_limited_one_by_one_only_where_no_group_counts_them() {
        let held = Rlimits::new(&limits(), true, true);
        assert_eq!((value(&held, Resource::Data), value(&held, Resource::Nproc)), (None, None));
        let free = Rlimits::new(&limits(), false, false);
        assert_eq!((value(&free, Resource::Data), value(&free, Resource::Nproc)), (Some(4 << 30), Some(103)));
        for limits in [&held, &free] {
            assert_eq!(value(limits, Resource::Fsize), Some(1 << 20));
            assert_eq!(value(limits, Resource::Nofile), Some(512));
            assert_eq!(value(limits, Resource::Core), Some(0));
            assert_eq!(value(limits, Resource::As), None);
        }
    }

    #[test]
    fn a_small_sandbox_still_lets_programs_start() {
        let small = Rlimits::new(&SandboxLimits { memory: 64 << 20, ..limits() }, false, true);
        assert_eq!(value(&small, Resource::Data), Some(1 << 30));
    }
}
