//! What differs between what was planted and what was taken out of a sandbox, by content, and which secrets are in it.
//!
//! A planted file that stayed as it was is no change, whatever it holds. A change holds a secret when its content has it
//! in an encoding that the planted content at the same path did not have, or a new entry's name, or a link's target: the
//! agent put it there. An edited `.env` that keeps its token is a change without secrets; a copy of it is one with.
//!
//! Memory is bounded whatever the agent did: contents are read once and searched, few are kept for the diff.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use bytes::Bytes;
use redroom_sidecar::search::{Container, Encoding, Match, SecretSet, Unsearched};
use redroom_sidecar::wire::Octets;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::diff::{Diff, Side};
use super::tree::{Baseline, EntryKind, Facts, Planted, hex, is_below, normal};
use crate::backend::{CollectedEntry, CollectedKind, Visitor, WORKSPACE};

#[cfg(test)]
mod tests;

/// Entries past this are looked at and searched, but only told if they hold a secret or were planted.
const ENTRIES: usize = 200_000;
/// Entries past [`ENTRIES`] that hold a secret.
const MORE_ENTRIES: usize = 10_000;
/// The largest content that is kept for the diff.
const KEPT_CONTENT: u64 = 1 << 20;
/// The most that is kept of all contents.
const KEPT_CONTENTS: u64 = 64 << 20;
/// Git's bookkeeping of the workspace: compared and searched like everything, but no text to read.
const REPOSITORY: &str = "/workspace/.git";
/// Things missed that are told one by one.
const MISSED: usize = 1000;

/// Something that is not as it was planted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// Where, absolute.
    pub path: Octets,
    /// What became of it.
    pub kind: ChangeKind,
    /// What was planted; `None` if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Facts>,
    /// What is there; `None` if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Facts>,
    /// Whether it is the workspace, or lies in it.
    pub in_workspace: bool,
    /// Secrets that came with the change: in the content, the name or a link's target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<FoundSecret>,
    /// What of a new content was not searched, or not to its end: a secret may be in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsearched: Vec<Unsearched>,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// It was not planted.
    Added,
    /// It has another content; perhaps another mode or owner too.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another mode or owner, and the same content.
    ModeChanged,
    /// It is something else now: a link where a file was.
    TypeChanged,
}

/// A secret in a part of the evidence that has no parts of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FoundSecret {
    /// The secret's name; never its value.
    pub secret: String,
    /// The disguise it wore.
    pub encoding: Encoding,
    /// The containers that it was in, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Container>,
}

impl From<Match> for FoundSecret {
    fn from(found: Match) -> Self {
        FoundSecret { secret: found.secret.to_string(), encoding: found.encoding, inside: found.inside }
    }
}

/// Something that could not be looked at, or not be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Where.
    pub path: Octets,
    /// Why.
    pub why: String,
}

/// What a [`Collector`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Changes {
    /// Sorted by path.
    pub changes: Vec<Change>,
    /// The workspace's changes as unified text.
    pub diff: String,
    /// What is missing in both.
    pub missed: Vec<Missed>,
}

/// Sees what a sandbox holds after a run, and compares it with what was planted.
pub(crate) struct Collector {
    baseline: Baseline,
    roots: Vec<Vec<u8>>,
    secrets: SecretSet,
    seen: BTreeMap<Vec<u8>, Seen>,
    /// Planted paths of which nobody knows whether they are still there.
    unknown: BTreeSet<Vec<u8>>,
    missed: Vec<Missed>,
    /// What was missed beyond [`MISSED`].
    missed_more: u64,
    /// Entries that were looked at, but not kept.
    untold: u64,
    kept: u64,
}

/// An entry after the run.
struct Seen {
    facts: Facts,
    /// In content or target.
    inside: Vec<FoundSecret>,
    in_name: Vec<FoundSecret>,
    unsearched: Vec<Unsearched>,
    /// `None`: not needed for the diff, or too large.
    content: Option<Bytes>,
}

impl Collector {
    /// A collector for what is collected below `roots`: only there can something be missing.
    pub(crate) fn new(baseline: Baseline, roots: &[String], secrets: SecretSet) -> Self {
        Collector {
            baseline,
            roots: roots.iter().map(|root| normal(root.as_bytes()).to_vec()).collect(),
            secrets,
            seen: BTreeMap::new(),
            unknown: BTreeSet::new(),
            missed: Vec::new(),
            missed_more: 0,
            untold: 0,
            kept: 0,
        }
    }

    /// Everything was shown that could be. Where collecting failed before its end, call [`Visitor::missed`] with the root
    /// first, or all that was not shown counts as deleted.
    pub(crate) fn finish(mut self) -> Changes {
        let paths: BTreeSet<Vec<u8>> = self
            .roots
            .iter()
            .flat_map(|root| self.baseline.below(root))
            .filter(|path| !self.unknown.contains(*path))
            .map(<[u8]>::to_vec)
            .chain(self.seen.keys().cloned())
            .collect();
        let mut diff = Diff::new();
        let mut changes = Vec::new();
        for path in paths {
            let (before, after) = (self.baseline.get(&path), self.seen.get(&path));
            let Some(change) = change(&path, before, after) else { continue };
            if is_shown(&path) {
                let before = before.map(|planted| Side {
                    facts: &planted.facts,
                    content: planted.content.as_deref().filter(|content| content.len() as u64 <= KEPT_CONTENT),
                });
                let after = after.map(|seen| Side { facts: &seen.facts, content: seen.content.as_deref() });
                diff.push(&path, before, after);
            }
            changes.push(change);
        }
        if self.untold > 0 {
            let why = format!("{} entries beyond {ENTRIES} were searched, but are not told", self.untold);
            self.missed.push(Missed { path: "/".into(), why });
        }
        if self.missed_more > 0 {
            self.missed.push(Missed { path: "/".into(), why: format!("{} more were missed", self.missed_more) });
        }
        Changes { changes, diff: diff.finish(), missed: self.missed }
    }

    /// Reads a file to its end. What of it is worth keeping is decided after, when its hash is known.
    fn read(&mut self, path: &[u8], content: &mut dyn Read) -> io::Result<Seen> {
        let mut hash = Sha256::new();
        let mut scanner = self.secrets.scanner();
        let mut size = 0;
        let mut kept = is_shown(path).then(Vec::new);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let chunk = &buffer[..count];
            size += count as u64;
            hash.update(chunk);
            scanner.feed(chunk);
            if size > KEPT_CONTENT.min(KEPT_CONTENTS - self.kept) {
                kept = None;
            }
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(chunk);
            }
        }
        let facts = Facts { size: Some(size), sha256: Some(hex(&hash.finalize())), ..Facts::new(EntryKind::File) };
        let unchanged = self.baseline.get(path).is_some_and(|planted| planted.facts.sha256 == facts.sha256);
        let content = kept.filter(|_| !unchanged).map(Bytes::from);
        let searched = scanner.finish();
        Ok(Seen { inside: found(searched.matches), unsearched: searched.unsearched, content, ..Seen::of(facts) })
    }

    /// The file that another name of it was shown for.
    fn linked(&self, target: &[u8]) -> Seen {
        let target = normal(target);
        let seen = self.seen.get(target);
        let facts = Facts {
            target: Some(Octets(target.to_vec())),
            ..seen.map_or(Facts::new(EntryKind::File), |seen| seen.facts.clone())
        };
        let planted = || {
            let planted = self.baseline.get(target).filter(|planted| planted.facts.sha256 == facts.sha256)?;
            planted.content.clone().filter(|content| content.len() as u64 <= KEPT_CONTENT)
        };
        let content = seen.and_then(|seen| seen.content.clone()).or_else(planted);
        let inside = seen.map(|seen| seen.inside.clone()).unwrap_or_default();
        let unsearched = seen.map(|seen| seen.unsearched.clone()).unwrap_or_default();
        Seen { inside, unsearched, content, ..Seen::of(facts) }
    }

    /// Secrets in the last part of a path; those in the parts before belong to the folders.
    fn in_name(&self, path: &[u8]) -> Vec<FoundSecret> {
        let name_start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1) as u64;
        let matches = self.secrets.search(path);
        found(matches.into_iter().filter(|found| found.offset > name_start).collect())
    }
}

impl Visitor for Collector {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        let path = normal(&entry.path);
        let mut seen = match &entry.kind {
            CollectedKind::File(_) => match self.read(path, content) {
                Ok(seen) => seen,
                Err(error) => {
                    self.missed(path, &format!("could not be read to its end: {error}"));
                    return Err(error);
                }
            },
            CollectedKind::Folder => Seen::of(Facts::new(EntryKind::Folder)),
            CollectedKind::Symlink(target) => {
                let facts = Facts { target: Some(Octets(target.clone())), ..Facts::new(EntryKind::Symlink) };
                Seen { inside: found(self.secrets.search(target)), ..Seen::of(facts) }
            }
            CollectedKind::HardLink(target) => {
                let seen = self.linked(target);
                if seen.facts.sha256.is_none() {
                    self.missed(path, "is another name of a file that was not shown");
                }
                seen
            }
            CollectedKind::Special(sort) => Seen::of(Facts::new(EntryKind::Special((*sort).to_owned()))),
        };
        seen.facts.mode = Some(entry.mode & 0o7777);
        seen.facts.uid = Some(entry.uid);
        seen.facts.gid = Some(entry.gid);
        seen.in_name = self.in_name(path);

        let holds_secret = !seen.inside.is_empty() || !seen.in_name.is_empty();
        let limit = if holds_secret { ENTRIES + MORE_ENTRIES } else { ENTRIES };
        if self.seen.len() < limit || self.baseline.get(path).is_some() {
            self.kept += match entry.kind {
                CollectedKind::File(_) => seen.content.as_ref().map_or(0, |content| content.len() as u64),
                _ => 0,
            };
            self.seen.insert(path.to_vec(), seen);
        } else {
            self.untold += 1;
        }
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        let path = normal(path);
        let unknown: Vec<_> = self.baseline.below(path).map(<[u8]>::to_vec).collect();
        self.unknown.extend(unknown);
        if self.missed.len() < MISSED {
            self.missed.push(Missed { path: Octets(path.to_vec()), why: why.to_owned() });
        } else {
            self.missed_more += 1;
        }
    }
}

impl Seen {
    fn of(facts: Facts) -> Self {
        Seen { facts, inside: Vec::new(), in_name: Vec::new(), unsearched: Vec::new(), content: None }
    }
}

/// Whether a change is shown in the diff: the workspace's are, but for git's own bookkeeping.
fn is_shown(path: &[u8]) -> bool {
    is_below(path, WORKSPACE.as_bytes()) && !is_below(path, REPOSITORY.as_bytes())
}

/// What became of an entry, if anything.
fn change(path: &[u8], before: Option<&Planted>, after: Option<&Seen>) -> Option<Change> {
    let kind = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some(before), Some(after)) if before.facts.kind != after.facts.kind => ChangeKind::TypeChanged,
        (Some(before), Some(after)) if before.facts.content_differs(&after.facts) => ChangeKind::Modified,
        (Some(before), Some(after)) if before.facts.access_differs(&after.facts) => ChangeKind::ModeChanged,
        (Some(_), Some(_)) => return None,
    };
    let mut secrets = match (kind, after) {
        (ChangeKind::Deleted | ChangeKind::ModeChanged, _) | (_, None) => Vec::new(),
        (ChangeKind::Added, Some(after)) => [&after.inside[..], &after.in_name].concat(),
        (_, Some(after)) => after.inside.clone(),
    };
    if let (ChangeKind::Modified, Some(before)) = (kind, before) {
        secrets.retain(|found| !before.secrets.contains(found));
    }
    secrets.sort();
    secrets.dedup();
    let unsearched = match (kind, after) {
        (ChangeKind::Deleted | ChangeKind::ModeChanged, _) | (_, None) => Vec::new(),
        (_, Some(after)) => after.unsearched.clone(),
    };
    Some(Change {
        path: Octets(path.to_vec()),
        kind,
        before: before.map(|before| before.facts.clone()),
        after: after.map(|after| after.facts.clone()),
        in_workspace: is_below(path, WORKSPACE.as_bytes()),
        secrets,
        unsearched,
    })
}

fn found(matches: Vec<Match>) -> Vec<FoundSecret> {
    matches.into_iter().map(FoundSecret::from).collect()
}
