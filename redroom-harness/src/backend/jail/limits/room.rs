//! How much the agent's trees may hold: they live in memory, and must leave some for what runs.

use crate::backend::SandboxLimits;

/// What a file or folder costs the kernel beside its content, in bytes.
const INODE: u64 = 1024;
/// As many as evidence is collected of.
const MOST_FILES: u64 = 1_000_000;

/// The size of the one file system that all of the agent's trees share: with one for each, either the sum were more than there is
/// or each too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes: three quarters of the sandbox's memory. Files count as memory; past this a write fails with "no space left", which
    /// a program can say, before the rest is gone and something is killed. A file larger than this fails in the same
    /// way, whatever `file_size` allows.
    pub(crate) bytes: u64,
    /// Files and folders: what they cost beside their content is at most an eighth of the memory.
    pub(crate) files: u64,
}

impl Room {
    /// The room that a sandbox with these limits has, in whole pages.
    pub(crate) fn of(limits: &SandboxLimits) -> Self {
        let bytes = limits.memory / 4 * 3;
        Room { bytes: bytes & !0xfff, files: (limits.memory / 8 / INODE).clamp(1024, MOST_FILES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_leave_memory_for_what_runs() {
        let room = |memory| Room::of(&SandboxLimits { cpus: 1.0, memory, pids: 1, file_size: 1 << 40, open_files: 1 });
        assert_eq!(room(2 << 30), Room { bytes: 1536 << 20, files: 262_144 });
        assert_eq!(room(32 << 20), Room { bytes: 24 << 20, files: 4096 });
        assert_eq!(room(1 << 40).files, 1_000_000);
        assert_eq!(room((32 << 20) + 5).bytes % 4096, 0);
    }
}
