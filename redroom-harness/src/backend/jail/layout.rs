//! What a jail's root is made of: planned from facts of this machine and from what is to be placed, before anything is made.
//!
//! The root is an allow-list: programs and libraries of this machine, read-only; an `/etc` of its own; trees that the agent can
//! write to. Nothing of `/run`, `/sys`, `/opt`, `/srv`, `/var` or anybody's home is let in: a socket in there could be spoken to,
//! read-only or not. Where something is to be placed in a folder of this machine's, a folder of ours is laid over that one, and
//! everything that it holds is let in anew beside the new thing.
//!
//! Pure: knows paths and kinds, makes nothing.

mod etc;
mod host;
mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub(super) use etc::HOST_NAME;
pub(super) use host::{Host, Look, Machine};

use self::node::{Children, Found, Node, Put, emit, find, let_in, put};

use crate::backend::{HOME, Owner, PlacedEntry, PlacedKind, ProgramFile, WORKSPACE};
use crate::error::{Error, Result};

/// Folders and links at the top that hold programs and libraries.
const PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Folders that are expected to be there.
const EMPTY: [&str; 7] = ["/dev", "/media", "/mnt", "/opt", "/proc", "/srv", "/sys"];
/// The trees that the agent can write to, their modes, and whose they are.
const TREES: [(&str, u32, Owner); 5] = [
    (WORKSPACE, 0o755, Owner::Agent),
    (HOME, 0o755, Owner::Agent),
    ("/tmp", 0o1777, Owner::Root),
    ("/var/tmp", 0o1777, Owner::Root),
    ("/run/lock", 0o1777, Owner::Root),
];
/// How many links are followed on one path.
const LINKS: u32 = 40;

/// One piece of the root. Paths are the agent's; `from` is this machine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// A folder.
    Folder { at: String, mode: u32 },
    /// A folder of ours over one of this machine's.
    Cover { at: String },
    /// A symbolic link.
    Symlink { at: String, target: String },
    /// Something of this machine's, read-only.
    Bind { from: String, at: String, file: bool, make: bool },
    /// Something of the agent's own; made when everything is planted.
    Own { path: String, at: String, file: bool, make: bool },
    /// A file of root's; made when everything is planted.
    Fixed { number: usize, at: String, make: bool },
}

/// A planned root.
#[derive(Debug)]
pub(super) struct Layout {
    /// In the order in which they are made.
    pub(super) steps: Vec<Step>,
    /// What is planted for root; its place is [`fixed_path`] of its number.
    pub(super) fixed: Vec<PlacedEntry>,
    /// What is planted for the agent, by its own paths.
    pub(super) own: Vec<PlacedEntry>,
    /// The folders of what is the agent's own.
    pub(super) trees: BTreeSet<String>,
}

/// Where a file of root's is planted.
pub(super) fn fixed_path(number: usize) -> String {
    format!("{FIXED}/{number}")
}

/// The folder that the files of root's are planted in.
pub(super) const FIXED: &str = "/fixed";

/// Who lives in a jail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inhabitant<'a> {
    /// Its user and group, as it sees them itself.
    pub(super) id: u32,
    /// Its program.
    pub(super) program: &'a [ProgramFile],
}

/// Plans a root.
///
/// # Errors
///
/// `invalid_path` for what cannot be placed.
pub(super) fn plan(host: &dyn Host, inhabitant: Inhabitant<'_>, entries: Vec<PlacedEntry>) -> Result<Layout> {
    let mut planner = Planner { host, root: base(host), fixed: Vec::new(), own: Vec::new(), trees: BTreeSet::new() };
    for (path, mode, owner) in TREES {
        planner.trees.insert(path.to_owned());
        planner.own.push(PlacedEntry { path: path.to_owned(), kind: PlacedKind::Folder, mode, owner });
    }
    for (path, content) in etc::files(inhabitant.id) {
        let kind = PlacedKind::File(content.into());
        planner.place(PlacedEntry { path, kind, mode: 0o644, owner: Owner::Root })?;
    }
    for file in inhabitant.program {
        let source = file.source.to_str().ok_or_else(|| invalid(&file.target, "its source's path is not text"))?;
        planner.put(&file.target, Node::Host { from: source.to_owned(), file: true, over: BTreeMap::new() })?;
    }
    for entry in entries {
        planner.place(entry)?;
    }
    let mut steps = Vec::new();
    emit(&planner.root, String::new(), false, &mut steps);
    Ok(Layout { steps, fixed: planner.fixed, own: planner.own, trees: planner.trees })
}

/// The path on this machine of a regular file that a jail holds before anything is placed.
pub(super) fn base_file(host: &dyn Host, path: &str) -> Option<String> {
    let mut planner = Planner { host, root: base(host), fixed: Vec::new(), own: Vec::new(), trees: BTreeSet::new() };
    planner.find(path)
}

/// The root without anything placed.
fn base(host: &dyn Host) -> Node {
    let mut top = Children::new();
    let mut add = |path: &str, node: Node| {
        let mut children = &mut top;
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in above.split('/').filter(|part| !part.is_empty()) {
            match children.entry(part.to_owned()).or_insert_with(Node::folder) {
                Node::Folder { children: below, .. } => children = below,
                _ => return,
            }
        }
        children.insert(name.to_owned(), node);
    };
    for path in EMPTY {
        add(path, Node::folder());
    }
    for path in PROGRAMS.iter().copied().chain(etc::LET_IN) {
        if let Some(node) = let_in(host, path.to_owned()) {
            add(path, node);
        }
    }
    for (path, ..) in TREES {
        add(path, Node::Own { path: path.to_owned(), over: BTreeMap::new() });
    }
    for (path, target) in [("/var/lock", "/run/lock"), ("/var/run", "/run"), ("/etc/mtab", "/proc/mounts")] {
        add(path, Node::Symlink(target.to_owned()));
    }
    // Settings of this machine's: not the jail's.
    if let Some(Node::Host { from, file: false, over }) = top.get_mut("usr")
        && host.look("/usr/local") == Look::Folder
        && host.look("/usr/local/etc") == Look::Folder
    {
        let settings = Children::from([("etc".to_owned(), Node::folder())]);
        over.insert("local".to_owned(), Node::Host { from: format!("{from}/local"), file: false, over: settings });
    }
    Node::Folder { mode: 0o755, children: top }
}

struct Planner<'a> {
    host: &'a dyn Host,
    root: Node,
    fixed: Vec<PlacedEntry>,
    own: Vec<PlacedEntry>,
    trees: BTreeSet<String>,
}

impl Planner<'_> {
    fn place(&mut self, entry: PlacedEntry) -> Result<()> {
        if !is_normal(&entry.path) {
            return Err(invalid(&entry.path, "it must be absolute and normal"));
        }
        let path = entry.path.clone();
        if entry.kind == PlacedKind::Folder {
            // Named once more, perhaps with another mode.
            self.own.retain(|earlier| earlier.path != path);
        }
        match (&entry.kind, entry.owner) {
            (PlacedKind::Folder, Owner::Root) => {
                let children = Children::new();
                if !self.put(&path, Node::Folder { mode: entry.mode & 0o7777, children })? {
                    self.own.push(entry);
                }
            }
            (PlacedKind::Folder, Owner::Agent) => {
                if self.put(&path, Node::Own { path: path.clone(), over: BTreeMap::new() })? {
                    self.trees.insert(path);
                }
                self.own.push(entry);
            }
            (PlacedKind::File(_), Owner::Agent) => {
                if self.put(&path, Node::OwnFile(path.clone()))? {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    self.trees.insert(parent.to_owned());
                }
                self.own.push(entry);
            }
            (PlacedKind::File(_), Owner::Root) => {
                let number = self.fixed.len();
                let in_tree = !self.put(&path, Node::Fixed(number))?;
                if in_tree {
                    self.own.push(entry.clone());
                }
                if !in_tree || self.lay_over(&path, number) {
                    self.fixed.push(PlacedEntry { path: fixed_path(number), ..entry });
                }
            }
        }
        Ok(())
    }

    /// Lays a file of root's over the same file in a tree of the agent's, who could remove that one, and owns it where there is no
    /// other user.
    fn lay_over(&mut self, path: &str, number: usize) -> bool {
        fn find<'n>(node: &'n mut Node, parts: &[&str]) -> Option<&'n mut BTreeMap<String, usize>> {
            match node {
                Node::Own { over, .. } => Some(over),
                Node::Folder { children, .. } => {
                    let (name, rest) = parts.split_first()?;
                    find(children.get_mut(*name)?, rest)
                }
                _ => None,
            }
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        find(&mut self.root, &parts).map(|over| over.insert(path.to_owned(), number)).is_some()
    }

    /// Puts a node at a path, along the links on the way. `false` where the path lies in a tree of the agent's.
    fn put(&mut self, path: &str, node: Node) -> Result<bool> {
        let mut node = Some(node);
        let mut way = path.to_owned();
        for _ in 0..LINKS {
            let parts: Vec<&str> = way.split('/').filter(|part| !part.is_empty()).collect();
            match put(self.host, &mut self.root, "", &parts, &mut node).map_err(|why| invalid(path, why))? {
                Put::Placed => return Ok(true),
                Put::InTree => return Ok(false),
                Put::Link(next) => way = next,
            }
        }
        Err(invalid(path, "there are too many links on its way"))
    }

    /// Where on this machine the file lies that the jail has at this path.
    fn find(&mut self, path: &str) -> Option<String> {
        let mut way = path.to_owned();
        for _ in 0..LINKS {
            let parts: Vec<&str> = way.split('/').filter(|part| !part.is_empty()).collect();
            match find(self.host, &self.root, "", &parts)? {
                Found::File(from) => return Some(from),
                Found::Link(next) => way = next,
            }
        }
        None
    }
}

fn is_normal(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| !rest.contains('\0') && rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

fn invalid(path: &str, why: &str) -> Error {
    Error::redroom("invalid_path", format!("{path:?} cannot be placed: {why}"))
}
