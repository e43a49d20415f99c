//! What the tests of planting, collecting and reading share. All of it runs as root and as a plain user.

#[path = "../../../../tests/docker/hostile_tree.rs"]
mod hostile_tree;

mod any_tree;
mod bounds;
mod collecting;
mod planting;
mod reading;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, mkfifoat, openat};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use tempfile::TempDir;

use self::hostile_tree::{ROWS, SCRIPT};
use super::collect::{Limits, collect_within};
use super::*;
use crate::backend::{CollectedEntry, CollectedKind, Owner, PlacedEntry, PlacedKind, Visitor};

/// A tree as a jail has it: in memory where the machine allows.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn opened(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// The owner that a jail started by this test's user would have.
fn owners() -> Owners {
    Owners::own()
}

fn workspace(folder: &TempDir) -> Roots {
    Roots::new([("/workspace".to_owned(), opened(folder.path()))], owners()).unwrap()
}

#[derive(Default)]
struct Seen {
    order: Vec<Vec<u8>>,
    entries: BTreeMap<Vec<u8>, (CollectedEntry, Vec<u8>)>,
    missed: Vec<(Vec<u8>, String)>,
    /// Gives up at this path.
    fails_at: Option<&'static [u8]>,
}

impl Visitor for Seen {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        if self.fails_at == Some(&entry.path) {
            return Err(io::Error::other("the disk is full"));
        }
        let mut kept = Vec::new();
        content.read_to_end(&mut kept)?;
        self.order.push(entry.path.clone());
        assert!(self.entries.insert(entry.path.clone(), (entry.clone(), kept)).is_none(), "shown twice");
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        self.missed.push((path.to_vec(), why.to_owned()));
    }
}

impl Seen {
    #[track_caller]
    fn get(&self, path: impl AsRef<[u8]>) -> &(CollectedEntry, Vec<u8>) {
        let path = path.as_ref();
        self.entries.get(path).unwrap_or_else(|| {
            panic!("{} was not shown; missed: {:?}", path.escape_ascii(), self.missed);
        })
    }

    #[track_caller]
    fn kind(&self, path: &str) -> &CollectedKind {
        &self.get(path).0.kind
    }

    fn missed_at(&self, path: &str) -> &str {
        let found = self.missed.iter().find(|(missed, _)| missed == path.as_bytes());
        found.map_or_else(|| panic!("{path} was not missed: {:?}", self.missed), |(_, why)| why)
    }
}

fn seen(roots: &Roots, wanted: &[&str]) -> Seen {
    let mut seen = Seen::default();
    let wanted: Vec<String> = wanted.iter().map(|path| (*path).to_owned()).collect();
    collect(roots, &wanted, &mut seen).unwrap();
    seen
}

fn seen_within(limits: Limits, roots: &Roots) -> Seen {
    let mut seen = Seen::default();
    collect_within(limits, roots, &["/workspace".to_owned()], &mut seen).unwrap();
    seen
}

const ROOMY: Limits = Limits { bytes: 1 << 30, entries: 1_000_000, paths: 1 << 30 };

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn file(path: &str, content: &str) -> PlacedEntry {
    let kind = PlacedKind::File(content.as_bytes().to_vec().into());
    PlacedEntry { path: path.to_owned(), kind, mode: 0o644, owner: Owner::Agent }
}

fn placed_folder(path: &str, mode: u32) -> PlacedEntry {
    PlacedEntry { path: path.to_owned(), kind: PlacedKind::Folder, mode, owner: Owner::Agent }
}

/// Runs a script of python's in a folder; `None`, said aloud, where there is no such program.
fn python(folder: &Path, script: &str) -> Option<()> {
    match Command::new("python3").args(["-c", script]).current_dir(folder).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(())
        }
        Err(error) => {
            eprintln!("skipped: python3 cannot be run: {error}");
            None
        }
    }
}
