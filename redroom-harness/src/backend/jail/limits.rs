//! What a sandbox may use.

use rustix::io::Result;

use crate::backend::SandboxLimits;

/// Holds one sandbox to its limits.
#[derive(Debug)]
pub(super) struct Limiter {
    limits: SandboxLimits,
}

impl Limiter {
    pub(super) fn prepare(limits: &SandboxLimits, _name: &str) -> Self {
        Limiter { limits: limits.clone() }
    }

    /// Takes a process in, and all that it will start.
    pub(super) fn admit(&self, _pid: i32) -> Result<()> {
        Ok(())
    }

    /// What is set in each process.
    pub(super) fn rlimits(&self) -> Vec<(u32, u64)> {
        vec![
            (libc::RLIMIT_FSIZE as u32, self.limits.file_size),
            (libc::RLIMIT_NOFILE as u32, self.limits.open_files),
            (libc::RLIMIT_NPROC as u32, self.limits.pids.into()),
            (libc::RLIMIT_DATA as u32, self.limits.memory),
            (libc::RLIMIT_CORE as u32, 0),
        ]
    }

    pub(super) fn memory_exceeded(&self) -> bool {
        false
    }

    pub(super) fn best_effort(&self) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn close(&self) {}
}
