//! What this machine has where.

use std::fs;

/// Facts of a machine's files.
pub(in super::super) trait Host {
    /// What is at a path; links are not followed.
    fn look(&self, path: &str) -> Look;
    /// The names in a folder; none where it cannot be listed. Names that are not text are left out.
    fn list(&self, path: &str) -> Vec<String>;
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Look {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A link to this.
    Symlink(String),
    /// A socket, a device, or a link that is not text.
    Other,
    /// Nothing that can be seen.
    Missing,
}

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Machine;

impl Host for Machine {
    fn look(&self, path: &str) -> Look {
        let Ok(facts) = fs::symlink_metadata(path) else { return Look::Missing };
        let kind = facts.file_type();
        if kind.is_dir() {
            Look::Folder
        } else if kind.is_file() {
            Look::File
        } else if kind.is_symlink() {
            match fs::read_link(path).map(|target| target.into_os_string().into_string()) {
                Ok(Ok(target)) => Look::Symlink(target),
                _ => Look::Other,
            }
        } else {
            Look::Other
        }
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}
