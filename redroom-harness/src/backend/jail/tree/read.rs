//! Reads one file out of a sandbox, alive or not.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::opening::{self, Opened};
use super::{Place, Roots};
use crate::backend::read_output_too_large;
use crate::error::{Error, Result};

/// A file's content, at most `limit` bytes. `None` where there is no regular file: nothing, a folder, a link anywhere on the
/// way, a fifo, a path in no tree.
///
/// # Errors
///
/// `read_output_too_large` past the limit; `read_failed` where the file is there and cannot be read.
pub(crate) fn read_file(roots: &Roots, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(Place { folder, below }) = roots.find(path) else { return Ok(None) };
    if below.is_empty() {
        return Ok(None);
    }
    let failed = |error: io::Error| Error::backend("read_failed", format!("cannot read {path}: {error}"));
    match open(folder, below, |file| content(file, limit)) {
        Ok(Ok(content)) => Ok(Some(content)),
        Ok(Err(Excess::Size(size))) => Err(read_output_too_large(path, size, limit)),
        Ok(Err(Excess::Failed(error))) => Err(failed(error)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO | Errno::NODEV) => Ok(None),
        // Longer than any name or path that there can be.
        Err(Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}

enum Excess {
    Size(u64),
    Failed(io::Error),
}

/// Not more than the limit, also of a file that grows under our eyes.
fn content(opened: &Opened, limit: u64) -> Result<Vec<u8>, Excess> {
    let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
    if size > limit {
        return Err(Excess::Size(size));
    }
    let mut content = Vec::new();
    let file = File::from(opened.fd.try_clone().map_err(Excess::Failed)?);
    file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(Excess::Failed)?;
    match content.len() as u64 {
        size if size > limit => Err(Excess::Size(size)),
        _ => Ok(content),
    }
}

/// Opens a file and the folders above it, has it used, and gives every mode back.
fn open<T>(folder: BorrowedFd<'_>, below: &str, act: impl FnOnce(&Opened) -> T) -> rustix::io::Result<T> {
    let (above, name) = below.rsplit_once('/').unwrap_or(("", below));
    if let Ok(above) = opening::confined(folder, parent_or_self(above), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        && let Ok(file) = opening::file(above.as_fd(), name.as_bytes())
    {
        let value = act(&file);
        file.restore();
        return Ok(value);
    }
    // Something on the way is shut: one folder after the other.
    let mut way: Vec<Opened> = Vec::new();
    let found = (|| {
        for part in std::iter::once(".").chain(above.split('/').filter(|part| !part.is_empty())) {
            let from = way.last().map_or(folder, |opened| opened.fd.as_fd());
            let opened = opening::folder(from, part.as_bytes())?;
            way.push(opened);
        }
        let from = way.last().map_or(folder, |opened| opened.fd.as_fd());
        let file = opening::file(from, name.as_bytes())?;
        let value = act(&file);
        file.restore();
        Ok(value)
    })();
    way.iter().rev().for_each(Opened::restore);
    found
}

fn parent_or_self(above: &str) -> &[u8] {
    if above.is_empty() { b"." } else { above.as_bytes() }
}
