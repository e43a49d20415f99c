//! Where this process may make control groups: read off the texts that the kernel gives, chosen without touching anything.
//!
//! Version 2: the highest group above our own that we may write to, that has no processes itself (or is the machine's root), and
//! that has the controllers. The highest, for then all sessions of a user use the same place, and a sweep finds what a dead one
//! left. Version 1: the top of a controller's hierarchy as it is mounted here.
//!
//! Groups are never made in the place itself, but in a node of ours in it ([`NODE`]): whoever manages the place, as systemd does, takes
//! controllers away from what it does not know beside its own groups. From a node that hands them down itself, the kernel lets
//! nobody take them.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Our own group in a place that we may write to. It has no processes itself.
const NODE: &str = "redroom";

/// What can be held by a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    pub(super) const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    pub(super) fn word(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Version {
    One,
    Two,
}

/// Where groups can be made: a node of ours, which need not be there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) folder: PathBuf,
}

impl Place {
    /// The node in a group that we may write to.
    pub(super) fn under(version: Version, folder: &Path) -> Self {
        Place { version, folder: folder.join(NODE) }
    }
}

/// The control groups that this process sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    /// From the top of the hierarchy down to our own group.
    two: Vec<Candidate>,
    one: Vec<(Controller, PathBuf)>,
}

/// A group of version 2 above us, or ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Candidate {
    folder: PathBuf,
    /// Controllers that it could hand down.
    available: Vec<Controller>,
    /// The machine's root, to which the rule about inner processes does not apply.
    is_root: bool,
    has_processes: bool,
    /// Groups can be made in it, and processes moved into them.
    writable: bool,
}

impl Hierarchies {
    /// What the kernel says of this process.
    pub(crate) fn of_this_process() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let groups = Mounted::read(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        let two = groups.two.iter().map(|folder| Candidate::look(folder)).collect();
        let one = groups.one.into_iter().filter(|(_, folder)| writable(folder)).collect();
        Hierarchies { two, one }
    }

    /// None at all, as in a container.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Where a group with this controller can be made; why not, if there is no place.
    pub(super) fn place(&self, controller: Controller) -> Result<Place, String> {
        if let Some(folder) = self.two().filter(|found| found.available.contains(&controller)) {
            return Ok(Place::under(Version::Two, &folder.folder));
        }
        if let Some((_, folder)) = self.one.iter().find(|(found, _)| *found == controller) {
            return Ok(Place::under(Version::One, folder));
        }
        let word = controller.word();
        let why = if self.two.iter().any(|candidate| candidate.writable && candidate.has_processes) {
            "the control group that it may write to has processes of its own"
        } else if self.two.is_empty() {
            "there is no control group that it may write to"
        } else {
            "no control group above this process is its own to write; `systemd-run --user --scope` starts it in one"
        };
        Err(format!("no {word} controller: {why}"))
    }

    /// Every place where groups of ours can be.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let two = self.two().map(|candidate| Place::under(Version::Two, &candidate.folder));
        let one = self.one.iter().map(|(_, folder)| Place::under(Version::One, folder));
        two.into_iter().chain(one)
    }

    #[cfg(test)]
    pub(super) fn top_of_version_two(&self) -> Option<PathBuf> {
        self.two.iter().find(|candidate| candidate.writable).map(|candidate| candidate.folder.clone())
    }

    fn two(&self) -> Option<&Candidate> {
        let usable = |candidate: &&Candidate| {
            candidate.writable
                && (candidate.is_root || !candidate.has_processes)
                && candidate.available.iter().any(|it| matches!(it, Controller::Memory | Controller::Pids))
        };
        self.two.iter().find(usable)
    }
}

impl Candidate {
    fn look(folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        Candidate {
            folder: folder.to_owned(),
            available: controllers(&text("cgroup.controllers")),
            // Only the root has no type.
            is_root: !folder.join("cgroup.type").exists(),
            has_processes: !text("cgroup.procs").trim().is_empty(),
            writable: writable(folder)
                && writable(&folder.join("cgroup.procs"))
                && writable(&folder.join("cgroup.subtree_control")),
        }
    }
}

fn controllers(text: &str) -> Vec<Controller> {
    let word = |word: &str| Controller::ALL.into_iter().find(|controller| controller.word() == word);
    text.split_ascii_whitespace().filter_map(word).collect()
}

fn writable(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Folders of control groups, out of the kernel's texts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounted {
    /// From the top to our own group.
    two: Vec<PathBuf>,
    one: Vec<(Controller, PathBuf)>,
}

impl Mounted {
    /// `groups` is a `/proc/PID/cgroup`, `mounts` its `mountinfo`.
    fn read(groups: &str, mounts: &str) -> Self {
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let mut mounted = Mounted::default();
        for mount in mounts.lines().filter_map(Mount::read) {
            match mount.kind {
                "cgroup2" if mounted.two.is_empty() => {
                    let below = own.and_then(|own| below(own, mount.root));
                    mounted.two = below.map(|below| chain(&mount.at, below)).unwrap_or_default();
                }
                "cgroup" => {
                    for controller in Controller::ALL {
                        let new = mounted.one.iter().all(|(known, _)| *known != controller);
                        if new && mount.options.split(',').any(|option| option == controller.word()) {
                            mounted.one.push((controller, mount.at.clone()));
                        }
                    }
                }
                _ => {}
            }
        }
        mounted
    }
}

/// The part of a group's path below what is mounted; `None` where it lies outside.
fn below<'a>(group: &'a str, root: &str) -> Option<&'a str> {
    let inside = match root {
        "/" => group,
        root => group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
    };
    let normal = inside.split('/').all(|part| part != "..");
    normal.then(|| inside.trim_matches('/'))
}

/// The folders from `top` down to `top/below`.
fn chain(top: &Path, below: &str) -> Vec<PathBuf> {
    let mut folders = vec![top.to_owned()];
    for part in below.split('/').filter(|part| !part.is_empty()) {
        folders.push(folders[folders.len() - 1].join(part));
    }
    folders
}

/// A line of `mountinfo`.
struct Mount<'a> {
    kind: &'a str,
    root: &'a str,
    at: PathBuf,
    /// The file system's own options, which name a hierarchy's controllers.
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let (kind, _source, options) = (filesystem.next()?, filesystem.next()?, filesystem.next().unwrap_or(""));
        Some(Mount { kind, root, at: unescaped(at), options })
    }
}

/// The kernel writes blanks and the like as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| byte == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests;
