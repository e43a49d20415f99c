//! Opens what the agent left by its name, whatever mode it has: an owner may always give itself the permission back.
//!
//! The mode is known before and set again after, so that looking twice shows the same.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, open, openat2};
use rustix::io::{Errno, Result, dup, retry_on_intr};
use rustix::process::geteuid;

/// No way out of the folder that a look-up starts from, and no link on the way.
const CONFINED: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A kernel gives up a confined look-up when names move under it.
const TRIES: u32 = 16;

/// Something of the agent's that is open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    /// As it was before it was opened.
    pub(super) stat: Stat,
    /// Its mode had to be changed for that.
    pub(super) widened: bool,
}

impl Opened {
    /// Sets the mode that it had.
    pub(super) fn restore(&self) {
        if self.widened {
            // Nobody misses the mode of what cannot be reached any more.
            let _ = set_mode(self.fd.as_fd(), self.stat.st_mode);
        }
    }
}

/// Opens a path below `folder` with these flags, confined; `EAGAIN` while names move is tried again.
pub(super) fn confined(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut tries = 0;
    loop {
        match retry_on_intr(|| openat2(folder, path, flags, mode, CONFINED)) {
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            opened => return opened,
        }
    }
}

/// Opens a regular file in `folder` for reading. `EINVAL` if it is anything else, which is never opened: no fifo can block.
pub(super) fn file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Opened> {
    let pinned = confined(folder, name, OFlags::PATH, Mode::empty())?;
    widely(pinned, FileType::RegularFile, Mode::RUSR)
}

/// Opens a folder in `folder` so that it can be listed and searched; `.` is the folder itself.
pub(super) fn folder(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Opened> {
    let pinned = match name {
        // A folder that is shut cannot even be asked for itself.
        b"." => dup(folder)?,
        name => confined(folder, name, OFlags::PATH, Mode::empty())?,
    };
    widely(pinned, FileType::Directory, Mode::RUSR | Mode::XUSR)
}

/// Opens for reading what is pinned, with these permissions; nothing else can have taken its place.
fn widely(pinned: OwnedFd, kind: FileType, needed: Mode) -> Result<Opened> {
    let stat = fstat(&pinned)?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(if kind == FileType::Directory { Errno::NOTDIR } else { Errno::INVAL });
    }
    let widened = stat.st_uid == geteuid().as_raw() && !Mode::from_raw_mode(stat.st_mode).contains(needed);
    if widened {
        set_mode(pinned.as_fd(), stat.st_mode | needed.as_raw_mode())?;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match retry_on_intr(|| open(itself(pinned.as_fd()), flags, Mode::empty())) {
        Ok(fd) => Ok(Opened { fd, stat, widened }),
        Err(errno) => {
            Opened { fd: pinned, stat, widened }.restore();
            Err(errno)
        }
    }
}

/// Sets the mode of exactly this file or folder, one that was opened for its path alone too.
fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    chmod(itself(fd), Mode::from_raw_mode(mode))
}

fn itself(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
