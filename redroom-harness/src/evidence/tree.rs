//! What was planted in a sandbox, and the facts of an entry by which before and after are compared.
//!
//! Knows contents and secrets; not how a sandbox is read.

use std::collections::BTreeMap;

use bytes::Bytes;
use redroom_sidecar::search::SecretSet;
use redroom_sidecar::wire::Octets;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::changes::FoundSecret;
use crate::backend::{AGENT_UID, HOME, Owner, PlacedEntry, PlacedKind, WORKSPACE};

/// Folders that every sandbox has, and their mode where it is the same everywhere.
const FOLDERS: [(&str, Option<u32>); 5] =
    [(HOME, None), (WORKSPACE, None), ("/tmp", Some(0o1777)), ("/var/tmp", Some(0o1777)), ("/run/lock", None)];

/// What is known of an entry. What is not known is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Facts {
    /// What it is.
    pub kind: EntryKind,
    /// The permission bits, setuid and its kin included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// A file's length in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of a file's content, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Where a link points. A hard link is a file with this and the content of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Octets>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file, under any of its names.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A fifo, socket or device.
    Special(String),
}

impl Facts {
    pub(super) fn new(kind: EntryKind) -> Self {
        Facts { kind, mode: None, uid: None, gid: None, size: None, sha256: None, target: None }
    }

    /// Whether the content, or where a symbolic link points, is another.
    pub(super) fn content_differs(&self, other: &Facts) -> bool {
        let link = |facts: &Facts| facts.target.clone().filter(|_| facts.kind == EntryKind::Symlink);
        self.size != other.size || self.sha256 != other.sha256 || link(self) != link(other)
    }

    /// Whether mode or owner is another.
    pub(super) fn access_differs(&self, other: &Facts) -> bool {
        let differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
        differ(self.mode, other.mode) || differ(self.uid, other.uid) || differ(self.gid, other.gid)
    }
}

/// What stood in a sandbox before the first turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    pub(super) entries: BTreeMap<Vec<u8>, Planted>,
}

/// An entry before the first turn.
#[derive(Clone)]
pub(super) struct Planted {
    pub(super) facts: Facts,
    pub(super) content: Option<Bytes>,
    /// What its content holds.
    pub(super) secrets: Vec<FoundSecret>,
}

/// No content: it holds secrets.
impl std::fmt::Debug for Planted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planted").field("facts", &self.facts).field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

impl Baseline {
    /// What was placed, beside the folders that every sandbox has.
    pub(crate) fn new(placed: &[PlacedEntry], secrets: &SecretSet) -> Self {
        let mut entries = BTreeMap::new();
        for (path, mode) in FOLDERS {
            let facts = Facts { mode, ..Facts::new(EntryKind::Folder) };
            entries.insert(path.as_bytes().to_vec(), Planted { facts, content: None, secrets: Vec::new() });
        }
        for entry in placed {
            entries.insert(normal(entry.path.as_bytes()).to_vec(), Planted::new(entry, secrets));
        }
        Baseline { entries }
    }

    pub(super) fn get(&self, path: &[u8]) -> Option<&Planted> {
        self.entries.get(path)
    }

    /// The planted paths at `root` and below.
    pub(super) fn below<'a>(&'a self, root: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.entries
            .range::<[u8], _>((std::ops::Bound::Included(root), std::ops::Bound::Unbounded))
            .map(|(path, _)| path.as_slice())
            .take_while(move |path| path.starts_with(root))
            .filter(move |path| is_below(path, root))
    }
}

impl Planted {
    fn new(entry: &PlacedEntry, secrets: &SecretSet) -> Self {
        let id = match entry.owner {
            Owner::Root => 0,
            Owner::Agent => AGENT_UID,
        };
        let access = |kind| Facts { mode: Some(entry.mode & 0o7777), uid: Some(id), gid: Some(id), ..Facts::new(kind) };
        match &entry.kind {
            PlacedKind::Folder => Planted { facts: access(EntryKind::Folder), content: None, secrets: Vec::new() },
            PlacedKind::File(content) => Planted {
                facts: Facts {
                    size: Some(content.len() as u64),
                    sha256: Some(hex(&Sha256::digest(content))),
                    ..access(EntryKind::File)
                },
                content: Some(content.clone()),
                secrets: secrets.search(content).into_iter().map(FoundSecret::from).collect(),
            },
        }
    }
}

/// A path without slashes at its end.
pub(super) fn normal(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// Whether `path` is `root`, or lies in it.
pub(super) fn is_below(path: &[u8], root: &[u8]) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
