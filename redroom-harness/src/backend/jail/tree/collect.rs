//! Shows what a sandbox left, entry by entry, when its processes are dead.
//!
//! The agent built the tree: how many entries, how deep, how large, with which names is its choice. The walk keeps a list of
//! folders instead of calling itself, has few of them open, and knows each by device and inode when it comes back to it. What
//! lies beyond the limits, or cannot be read, is reported as missed, never left out silently.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::opening::{self, Opened};
use super::{Owners, Place, Roots};
use crate::backend::{CollectedEntry, CollectedKind, Visitor};
use crate::error::{Error, Result};

/// Folders that the walk has open at once; to those above it goes back through `..`.
const OPEN_FOLDERS: usize = 32;
const LISTING: usize = 32 << 10;

/// How much of one root is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Contents of files in bytes; a hole counts as the zeros that it stands for.
    pub(super) bytes: u64,
    /// Names.
    pub(super) entries: u64,
    /// All paths together, in bytes: a folder in a folder, ten thousand times, has few names and long paths.
    pub(super) paths: u64,
}

impl Limits {
    const DEFAULT: Limits = Limits { bytes: 4 << 30, entries: 1_000_000, paths: 256 << 20 };
}

/// Shows `visitor` every entry at these absolute paths and below, folders before what is in them, sorted by name. Owners are
/// what the agent takes them for. A path that is in no tree, or where nothing is, is passed over. No link is followed.
///
/// Call it when the processes are dead: a name that comes or goes meanwhile can be missed. Blocks.
///
/// # Errors
///
/// `collect_failed` where the visitor gives up. What cannot be read is [missed](Visitor::missed) instead.
pub(crate) fn collect(roots: &Roots, wanted: &[String], visitor: &mut dyn Visitor) -> Result<()> {
    collect_within(Limits::DEFAULT, roots, wanted, visitor)
}

pub(super) fn collect_within(
    limits: Limits,
    roots: &Roots,
    wanted: &[String],
    visitor: &mut dyn Visitor,
) -> Result<()> {
    for root in wanted {
        let root = root.trim_end_matches('/');
        let mut walk = Walk::new(limits, roots.owners, root, visitor);
        let within = roots.find(root).into_iter().map(|place| (root, place));
        let below = roots.below(root).into_iter().map(|tree| {
            let place = Place { folder: tree.folder.as_fd(), below: "" };
            (tree.prefix.as_str(), place)
        });
        for (path, place) in within.chain(below) {
            walk.start(path, place)
                .map_err(|error| Error::backend("collect_failed", format!("cannot collect {root}: {error}")))?;
        }
    }
    Ok(())
}

/// The way through one root.
struct Walk<'a> {
    limits: Limits,
    owners: Owners,
    root: &'a str,
    visitor: &'a mut dyn Visitor,
    /// The path of the entry at hand.
    path: Vec<u8>,
    /// From the root to the folder at hand.
    folders: Vec<Folder>,
    /// Where files with several names were shown first.
    shown: HashMap<Identity, Vec<u8>>,
    left: Limits,
}

type Identity = (u64, u64);

/// A folder that the walk is in.
struct Folder {
    /// `None`: closed, to have few of them open.
    fd: Option<OwnedFd>,
    stat: Stat,
    widened: bool,
    /// Names that are still to be shown, the next one last.
    names: Vec<Box<[u8]>>,
    /// How long its path is.
    path: usize,
}

/// Why a walk ended before its time.
enum Stop {
    /// The visitor has given up.
    Visitor(io::Error),
    /// What is left cannot be reached or is too much; it has been reported.
    Reported,
}

impl<'a> Walk<'a> {
    fn new(limits: Limits, owners: Owners, root: &'a str, visitor: &'a mut dyn Visitor) -> Self {
        let shown = HashMap::new();
        Walk { limits, owners, root, visitor, path: Vec::new(), folders: Vec::new(), shown, left: limits }
    }

    fn start(&mut self, path: &str, place: Place<'_>) -> io::Result<()> {
        self.path = path.as_bytes().to_vec();
        let walked = match self.first(place) {
            Ok(()) => self.rest(),
            stopped => stopped,
        };
        self.folders.drain(..).rev().for_each(|folder| folder.restore());
        match walked {
            Err(Stop::Visitor(error)) => Err(error),
            Ok(()) | Err(Stop::Reported) => Ok(()),
        }
    }

    /// The entry that a root names.
    fn first(&mut self, place: Place<'_>) -> Result<(), Stop> {
        let (above, name) = match place.below.rsplit_once('/') {
            Some((above, name)) => (above, name),
            None if place.below.is_empty() => return self.tree(place.folder),
            None => (".", place.below),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match opening::confined(place.folder, above.as_bytes(), flags, Mode::empty()) {
            Ok(above) => self.entry(above.as_fd(), name.as_bytes(), Absent::PassedOver),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => {
                self.missed(&errno.to_string());
                Ok(())
            }
        }
    }

    /// A whole tree.
    fn tree(&mut self, folder: BorrowedFd<'_>) -> Result<(), Stop> {
        match fstat(folder) {
            Ok(stat) => self.folder(folder, b".", &stat),
            Err(errno) => {
                self.missed(&errno.to_string());
                Ok(())
            }
        }
    }

    fn rest(&mut self) -> Result<(), Stop> {
        while let Some(folder) = self.folders.last_mut() {
            self.path.truncate(folder.path);
            let Some(name) = folder.names.pop() else {
                self.leave()?;
                continue;
            };
            let fd = folder.fd.take().expect("the folder at hand is open");
            self.path.push(b'/');
            self.path.extend_from_slice(&name);
            let at = self.folders.len() - 1;
            let shown = self.entry(fd.as_fd(), &name, Absent::Missed);
            self.folders[at].fd = Some(fd);
            shown?;
            if let Some(far) = self.folders.len().checked_sub(OPEN_FOLDERS + 1) {
                self.folders[far].fd = None;
            }
        }
        Ok(())
    }

    /// Goes back to the folder above, which may have to be opened again.
    fn leave(&mut self) -> Result<(), Stop> {
        let Some(left) = self.folders.pop() else { return Ok(()) };
        let returned = match (self.folders.last_mut(), &left.fd) {
            (Some(above), Some(fd)) if above.fd.is_none() => match up(fd.as_fd(), &above.stat) {
                Ok(fd) => {
                    above.fd = Some(fd);
                    Ok(())
                }
                Err(errno) => Err((above.path, errno)),
            },
            _ => Ok(()),
        };
        left.restore();
        returned.map_err(|(path, errno)| {
            self.path.truncate(path);
            self.missed(&format!("what comes after is lost, for the way back is: {errno}"));
            self.visitor.missed(self.root.as_bytes(), "the way back to it was lost; the rest was not collected");
            Stop::Reported
        })
    }

    /// The entry with the path at hand.
    fn entry(&mut self, above: BorrowedFd<'_>, name: &[u8], absent: Absent) -> Result<(), Stop> {
        let stat = match statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if absent == Absent::PassedOver => return Ok(()),
            Err(errno) => {
                self.missed(&errno.to_string());
                return Ok(());
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.folder(above, name, &stat),
            FileType::RegularFile => self.file(above, name, &stat),
            FileType::Symlink => match readlinkat(above, name, Vec::new()) {
                Ok(target) => self.show(CollectedKind::Symlink(target.into_bytes()), &stat, &mut io::empty()),
                Err(errno) => {
                    self.missed(&errno.to_string());
                    Ok(())
                }
            },
            special => self.show(CollectedKind::Special(sort(special)), &stat, &mut io::empty()),
        }
    }

    fn folder(&mut self, above: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<(), Stop> {
        self.show(CollectedKind::Folder, stat, &mut io::empty())?;
        let Opened { fd, stat, widened } = match opening::folder(above, name) {
            Ok(opened) => opened,
            Err(errno) => {
                self.missed(&format!("it cannot be opened: {errno}"));
                return Ok(());
            }
        };
        let listed = list(fd.as_fd(), self.left.entries);
        self.left.entries -= listed.names.len() as u64;
        if listed.more {
            let most = self.limits.entries;
            self.missed(&format!("{} has more than {most} entries; not all in here were collected", self.root));
        }
        if let Some(errno) = listed.failed {
            self.missed(&format!("it cannot be listed to its end: {errno}"));
        }
        let path = self.path.len();
        self.folders.push(Folder { fd: Some(fd), stat, widened, names: listed.names, path });
        Ok(())
    }

    fn file(&mut self, above: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<(), Stop> {
        let identity = identity(stat);
        if stat.st_nlink > 1
            && let Some(first) = self.shown.get(&identity)
        {
            return self.show(CollectedKind::HardLink(first.clone()), stat, &mut io::empty());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > self.left.bytes {
            let (left, most) = (self.left.bytes, self.limits.bytes);
            self.missed(&format!("it has {size} bytes; of {most} that are read of {}, {left} were left", self.root));
            return Ok(());
        }
        let opened = match opening::file(above, name) {
            Ok(opened) => opened,
            Err(errno) => {
                self.missed(&format!("it cannot be opened: {errno}"));
                return Ok(());
            }
        };
        self.left.bytes -= size;
        let restored = Restored(&opened);
        let mut content = match opened.fd.try_clone() {
            Ok(fd) => Content { file: File::from(fd), left: size, failed: None },
            Err(error) => {
                self.missed(&format!("it cannot be opened: {error}"));
                return Ok(());
            }
        };
        let shown = self.show(CollectedKind::File(size), stat, &mut content);
        drop(restored);
        if let Some(why) = content.failed {
            self.missed(&format!("it cannot be read to its end: {why}"));
            return Ok(());
        }
        shown?;
        if stat.st_nlink > 1 {
            self.shown.insert(identity, self.path.clone());
        }
        Ok(())
    }

    fn show(&mut self, kind: CollectedKind, stat: &Stat, content: &mut dyn Read) -> Result<(), Stop> {
        let length = self.path.len() as u64;
        if length > self.left.paths {
            let why = "the paths in it are too long and too many; the rest was not collected";
            self.visitor.missed(self.root.as_bytes(), why);
            return Err(Stop::Reported);
        }
        self.left.paths -= length;
        let (uid, gid) = self.owners.seen(stat.st_uid, stat.st_gid);
        let entry = CollectedEntry { path: self.path.clone(), kind, mode: stat.st_mode & 0o7777, uid, gid };
        self.visitor.entry(&entry, content).map_err(Stop::Visitor)
    }

    fn missed(&mut self, why: &str) {
        self.visitor.missed(&self.path, why);
    }
}

impl Folder {
    fn restore(self) {
        if let Some(fd) = self.fd {
            Opened { fd, stat: self.stat, widened: self.widened }.restore();
        }
    }
}

/// What it means if nothing is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    PassedOver,
    Missed,
}

/// Gives a file its mode back, whatever comes.
struct Restored<'a>(&'a Opened);

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        self.0.restore();
    }
}

/// Reads a file up to the size that it was shown with. A file that ends before fails.
struct Content {
    file: File,
    left: u64,
    failed: Option<String>,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = match self.file.read(&mut buffer[..most]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            other => other,
        };
        match read {
            Ok(read) => {
                self.left -= read as u64;
                Ok(read)
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                Err(error)
            }
        }
    }
}

/// The names in a folder, the first in order last.
struct Listing {
    names: Vec<Box<[u8]>>,
    /// There are more than were asked for.
    more: bool,
    failed: Option<Errno>,
}

fn list(folder: BorrowedFd<'_>, most: u64) -> Listing {
    let mut listing = Listing { names: Vec::new(), more: false, failed: None };
    let mut buffer = vec![MaybeUninit::uninit(); LISTING];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) => match entry.file_name().to_bytes() {
                b"." | b".." => {}
                _ if listing.names.len() as u64 == most => {
                    listing.more = true;
                    break;
                }
                name => listing.names.push(name.into()),
            },
            Err(Errno::INTR) => {}
            Err(errno) => {
                listing.failed = Some(errno);
                break;
            }
        }
    }
    listing.names.sort_unstable_by(|a, b| b.cmp(a));
    listing
}

/// The folder above, if it is still the one that it was.
fn up(folder: BorrowedFd<'_>, expected: &Stat) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let above = openat(folder, "..", flags, Mode::empty())?;
    if identity(&fstat(&above)?) == identity(expected) { Ok(above) } else { Err(Errno::STALE) }
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn sort(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "something unknown",
    }
}
