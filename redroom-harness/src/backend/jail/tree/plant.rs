//! Puts files into the trees before the agent starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat};
use rustix::io::Errno;

use super::{Owners, Place, Roots, invalid, opening};
use crate::backend::{Owner, PlacedEntry, PlacedKind};
use crate::error::{Error, Result};

/// Folders that nobody named are as if the agent had made them.
const IMPLIED: Access = Access { mode: 0o755, owner: Owner::Agent };

/// Makes every entry and the folders above it. Folders that were not named are the agent's; nothing is written over.
///
/// Where [`Owners::Own`] holds there is one owner only: what should be root's is the agent's too. So let nothing lie in a tree
/// that the agent must not change.
///
/// # Errors
///
/// `invalid_path` for a path that is in no tree or not normal, or that is to be two things, before anything is made;
/// `place_failed` with the path where the system refuses.
pub(crate) fn plant(roots: &Roots, entries: &[PlacedEntry]) -> Result<()> {
    let plan = Plan::new(roots, entries)?;
    let failed = |path: &str, error: io::Error| {
        Error::backend("place_failed", format!("cannot put {path:?} into the sandbox: {error}"))
    };
    let mut unfinished = Vec::new();
    for (path, folder) in &plan.folders {
        let there = make_folder(&folder.place).map_err(|error| failed(path, error))?;
        if folder.named || !there {
            unfinished.push((path, folder));
        }
    }
    for (path, file) in &plan.files {
        make_file(file, roots.owners).map_err(|error| failed(path, error))?;
    }
    // From below, and only now: a mode can shut us out of what is still to be filled.
    for (path, folder) in unfinished.into_iter().rev() {
        finish_folder(folder, roots.owners).map_err(|error| failed(path, error))?;
    }
    Ok(())
}

/// Everything that is to be made. Paths are sorted, so that a folder comes before what is in it.
struct Plan<'a> {
    folders: BTreeMap<&'a str, Folder<'a>>,
    files: BTreeMap<&'a str, Content<'a>>,
}

struct Folder<'a> {
    place: Place<'a>,
    access: Access,
    /// It gets its mode also if it was there before.
    named: bool,
}

struct Content<'a> {
    place: Place<'a>,
    access: Access,
    bytes: &'a Bytes,
}

#[derive(Clone, Copy)]
struct Access {
    mode: u32,
    owner: Owner,
}

impl<'a> Plan<'a> {
    fn new(roots: &'a Roots, entries: &'a [PlacedEntry]) -> Result<Self> {
        let mut plan = Plan { folders: BTreeMap::new(), files: BTreeMap::new() };
        let mut named = BTreeSet::new();
        for entry in entries {
            let path = entry.path.as_str();
            let place = roots.find(path).ok_or_else(|| {
                invalid(path, "it must be absolute, normal, and in a folder that the agent can write to")
            })?;
            if !named.insert(path) {
                return Err(invalid(path, "it is given twice"));
            }
            let access = Access { mode: entry.mode & 0o7777, owner: entry.owner };
            for above in folders_above(path, place.below) {
                let place = roots.find(above).expect("what lies above in a tree is in that tree");
                plan.folders.entry(above).or_insert(Folder { place, access: IMPLIED, named: false });
            }
            match &entry.kind {
                PlacedKind::Folder => drop(plan.folders.insert(path, Folder { place, access, named: true })),
                PlacedKind::File(_) if place.below.is_empty() => return Err(invalid(path, "it is a folder")),
                PlacedKind::File(bytes) => drop(plan.files.insert(path, Content { place, access, bytes })),
            }
        }
        match plan.files.keys().find(|path| plan.folders.contains_key(*path)) {
            Some(both) => Err(invalid(both, "it would have to be a file and a folder")),
            None => Ok(plan),
        }
    }
}

/// The folders between a tree's own and this path, from above.
fn folders_above<'a>(path: &'a str, below: &str) -> impl Iterator<Item = &'a str> {
    let start = path.len() - below.len();
    path.match_indices('/').map(|(at, _)| at).filter(move |at| *at > start).map(|at| &path[..at])
}

/// Makes a folder that only we can use so far. Whether it was there already.
fn make_folder(place: &Place<'_>) -> io::Result<bool> {
    if place.below.is_empty() {
        return Ok(true);
    }
    let (above, name) = parent(place)?;
    match mkdirat(&above, name, Mode::RWXU) {
        Ok(()) => Ok(false),
        // If it is something else, or a link, the next step finds out.
        Err(Errno::EXIST) => opening::folder(above.as_fd(), name.as_bytes()).map(|_| true).map_err(Into::into),
        Err(errno) => Err(errno.into()),
    }
}

fn make_file(content: &Content<'_>, owners: Owners) -> io::Result<()> {
    let (above, name) = parent(&content.place)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(opening::confined(above.as_fd(), name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(content.bytes)?;
    set_access(file.as_fd(), content.access, owners)
}

fn finish_folder(folder: &Folder<'_>, owners: Owners) -> io::Result<()> {
    let path = if folder.place.below.is_empty() { "." } else { folder.place.below };
    let opened = opening::folder(folder.place.folder, path.as_bytes())?;
    set_access(opened.fd.as_fd(), folder.access, owners)
}

/// The owner first: a change of it takes the setuid bit away.
fn set_access(fd: BorrowedFd<'_>, access: Access, owners: Owners) -> io::Result<()> {
    if let Owners::Given { agent } = owners {
        let id = match access.owner {
            Owner::Root => 0,
            Owner::Agent => agent,
        };
        fchown(fd, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
    }
    Ok(fchmod(fd, Mode::from_raw_mode(access.mode))?)
}

/// The folder that a place lies in, and its name there.
fn parent<'a>(place: &Place<'a>) -> io::Result<(OwnedFd, &'a str)> {
    let (above, name) = place.below.rsplit_once('/').unwrap_or((".", place.below));
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    Ok((opening::confined(place.folder, above.as_bytes(), flags, Mode::empty())?, name))
}
