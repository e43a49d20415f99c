//! The trees that a jailed agent can write to, seen from outside through descriptors of their folders.
//!
//! A descriptor keeps a tree alive when the mount namespace that it belongs to is gone, and no path of this machine leads to
//! it. Everything below a tree is hostile: it is reached name by name or by `openat2` with `BENEATH | NO_SYMLINKS`, no link
//! is followed, nothing is opened that could block, nothing is executed.
//!
//! Knows folders, owners and entries; not how a jail is made, nor what evidence is.

mod collect;
mod opening;
mod plant;
mod read;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{getegid, geteuid};

pub(crate) use collect::collect;
pub(crate) use plant::plant;
pub(crate) use read::read_file;

use crate::backend::AGENT_UID;
use crate::error::Error;

/// The trees of one sandbox, by the absolute path that the agent knows each by.
#[derive(Debug)]
pub(crate) struct Roots {
    trees: Vec<Tree>,
    owners: Owners,
}

/// A folder of a sandbox, opened for reading.
#[derive(Debug)]
struct Tree {
    /// Absolute and normal.
    prefix: String,
    folder: OwnedFd,
}

/// Which owner of this machine's the agent is, and what the agent takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// The jail was started with privileges: the agent is this user and group of the machine's, what is not its own is root's.
    Given {
        /// The user and group of this one jail.
        agent: u32,
    },
    /// The jail was started by a plain user: everything in it is that user's own.
    Own {
        /// Effective user of this process.
        uid: u32,
        /// Effective group of this process.
        gid: u32,
    },
}

impl Owners {
    /// This process's own user and group, as a plain user's jail has them.
    pub(crate) fn own() -> Self {
        Owners::Own { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// User and group as the agent of every backend sees them: its own are [`AGENT_UID`].
    fn seen(self, uid: u32, gid: u32) -> (u32, u32) {
        let (agent, group) = match self {
            Owners::Given { agent } => (agent, agent),
            Owners::Own { uid, gid } => (uid, gid),
        };
        let see = |id, own| if id == own { AGENT_UID } else { id };
        (see(uid, agent), see(gid, group))
    }
}

/// A place in a tree: the tree's folder, and the path from there, without a slash at either end.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    folder: BorrowedFd<'a>,
    below: &'a str,
}

impl Roots {
    /// Trees by their absolute, normal paths; the root's is empty. A tree inside another one's path is a tree of its own.
    ///
    /// # Errors
    ///
    /// `invalid_path` for a prefix that is not absolute and normal.
    pub(crate) fn new(
        trees: impl IntoIterator<Item = (String, OwnedFd)>,
        owners: Owners,
    ) -> crate::error::Result<Self> {
        let trees = trees.into_iter().map(|(prefix, folder)| {
            if prefix.is_empty() || is_normal(&prefix) {
                Ok(Tree { prefix, folder })
            } else {
                Err(invalid(&prefix, "it must be absolute and normal"))
            }
        });
        Ok(Roots { trees: trees.collect::<Result<_, _>>()?, owners })
    }

    /// Whether this path lies in one of the trees: what does not belongs to the jail's fixed root.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// The trees' folders, for instance to ask how much they hold.
    pub(crate) fn folders(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.trees.iter().map(|tree| tree.folder.as_fd())
    }

    /// Where a path leads: into the tree with the longest prefix. `None` for a path in no tree, or one that is not normal.
    fn find<'a>(&'a self, path: &'a str) -> Option<Place<'a>> {
        if !is_normal(path) {
            return None;
        }
        let within = |tree: &'a Tree| {
            let below = path.strip_prefix(tree.prefix.as_str())?;
            (below.is_empty() || below.starts_with('/')).then_some((tree, below.trim_start_matches('/')))
        };
        let (tree, below) = self.trees.iter().filter_map(within).max_by_key(|(tree, _)| tree.prefix.len())?;
        Some(Place { folder: tree.folder.as_fd(), below })
    }

    /// The trees strictly below a path, in the order of their paths.
    fn below<'a>(&'a self, path: &'a str) -> Vec<&'a Tree> {
        let inside = |tree: &&Tree| tree.prefix.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        let mut trees: Vec<&Tree> = self.trees.iter().filter(inside).collect();
        trees.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        trees
    }
}

/// Whether a path is absolute and has no part that is empty, `.` or `..`, nor a NUL.
fn is_normal(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| !rest.contains('\0') && rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

fn invalid(path: &str, why: &str) -> Error {
    Error::redroom("invalid_path", format!("{path:?} cannot be placed: {why}"))
}
