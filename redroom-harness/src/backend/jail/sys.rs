//! What a jail asks of the kernel while it is made, behind a seam: a fake one shows what happens when a step is refused.
//!
//! The only folder with `unsafe` code: each use says why it is sound. What is safe to call in other ways is called there.

#![allow(unsafe_code, reason = "system calls without a safe form; each use says why it is sound")]

mod linux;
mod watched;

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(super) use linux::{Fork, Linux, close_from, fork, reset_signals, signals_of_children};
pub(super) use watched::watched;

/// The kernel, as far as making a jail needs it. Paths are those of the calling process.
pub(super) trait Kernel {
    /// Moves the process into namespaces of its own.
    fn unshare(&self, namespaces: Namespaces) -> Result<(), Errno>;
    /// Writes a small file that exists, such as those of `/proc`.
    fn write(&self, path: &str, content: &str) -> Result<(), Errno>;
    /// Keeps mounts that are made here from being seen outside.
    fn keep_mounts_to_itself(&self) -> Result<(), Errno>;
    /// Mounts a new file system.
    fn mount(&self, kind: &str, at: &str, data: &str) -> Result<(), Errno>;
    /// Sets how much a file system in memory may hold.
    fn change_room(&self, at: &str, data: &str) -> Result<(), Errno>;
    /// A copy of the tree at `path`, with what is mounted below, attached nowhere.
    fn copy_tree(&self, path: &str) -> Result<OwnedFd, Errno>;
    /// Takes rights away from a copied tree and everything below.
    fn restrict_tree(&self, tree: &OwnedFd, rights: Rights) -> Result<(), Errno>;
    /// Attaches a copied tree.
    fn attach(&self, tree: &OwnedFd, at: &str) -> Result<(), Errno>;
    /// Takes rights away from what is mounted at `path`, and from that alone.
    fn restrict_mount(&self, path: &str, rights: Rights) -> Result<(), Errno>;
    /// Whether there is anything at `path`.
    fn exists(&self, path: &str) -> Result<bool, Errno>;
    /// Makes a folder.
    fn folder(&self, path: &str, mode: u32) -> Result<(), Errno>;
    /// Makes an empty file.
    fn file(&self, path: &str) -> Result<(), Errno>;
    /// Makes a symbolic link.
    fn symlink(&self, path: &str, target: &str) -> Result<(), Errno>;
    /// Opens a folder.
    fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno>;
    /// Makes `path` the root, and lets go of the old one.
    fn enter_root(&self, path: &str) -> Result<(), Errno>;
    /// Sets the host's name.
    fn name_host(&self, name: &str) -> Result<(), Errno>;
    /// Sets a resource limit, soft and hard.
    fn limit(&self, resource: u32, value: u64) -> Result<(), Errno>;
    /// Lets nobody of the same user look into the process.
    fn close_to_others(&self) -> Result<(), Errno>;
    /// Ends with the parent.
    fn die_with_parent(&self) -> Result<(), Errno>;
    /// Becomes a plain user, without any further group.
    fn become_user(&self, id: u32) -> Result<(), Errno>;
    /// Lets no program that is executed gain a capability. Needs one itself.
    fn shut_bounding_set(&self) -> Result<(), Errno>;
    /// Gives up every capability.
    fn drop_capabilities(&self) -> Result<(), Errno>;
    /// Lets no program that is executed gain a right, whatever it is marked with.
    fn gain_nothing(&self) -> Result<(), Errno>;
}

/// Which namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    /// A network.
    Network,
    /// Users, and a network of theirs.
    UserAndNetwork,
    /// Everything else that a sandbox has for itself.
    Sandbox,
}

/// What a mount does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// To change anything, to use devices, to gain rights.
    ReadOnly,
    /// To use devices, to gain rights.
    Plain,
    /// To execute, or to change the node itself: a device.
    Device,
}

/// A step that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    /// Its name: `unshare`, `uid_map`, `bind /usr`.
    pub(super) step: String,
    /// The error's number; 0 where it is not the kernel's.
    pub(super) errno: i32,
    /// More to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
}

impl Refused {
    pub(super) fn new(step: impl Into<String>, detail: impl ToString) -> Self {
        Refused { step: step.into(), errno: 0, detail: detail.to_string() }
    }
}

/// Names the step that was refused.
pub(super) trait Step<T> {
    fn step(self, name: impl AsRef<str>) -> Result<T, Refused>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, name: impl AsRef<str>) -> Result<T, Refused> {
        self.map_err(|errno| Refused {
            step: name.as_ref().to_owned(),
            errno: errno.raw_os_error(),
            detail: String::new(),
        })
    }
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, name: impl AsRef<str>) -> Result<T, Refused> {
        self.map_err(|error| match error.raw_os_error() {
            Some(errno) => Refused { step: name.as_ref().to_owned(), errno, detail: String::new() },
            None => Refused::new(name.as_ref(), error),
        })
    }
}
