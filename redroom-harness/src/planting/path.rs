//! Where a planted file lies: paths that cannot leave their place, and the set in which no two get in each other's way.
//!
//! Everything here is text; nothing is looked up on this machine, and nothing is known of what the files hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::backend::{HOME, WORKSPACE};

/// The most bytes that one part of a path may have (Linux: `NAME_MAX`).
const PART_LIMIT: usize = 255;
/// The most bytes that a whole path in the sandbox may have (Linux: `PATH_MAX`, its NUL included).
const PATH_LIMIT: usize = 4095;

/// How many folders a file may lie in.
const DEEPEST: usize = 128;

/// Folders in which nothing can be planted: the agent's managed settings, which hold the tool hook, and what the kernel
/// makes up.
const CLOSED: [(&str, &str); 4] = [
    ("/etc/claude-code", "the agent's managed settings lie there"),
    ("/proc", "the kernel makes it up"),
    ("/sys", "the kernel makes it up"),
    ("/dev", "devices lie there"),
];

/// Folders that every sandbox has, and that no planted file may replace.
const FOLDERS: [&str; 5] = [HOME, WORKSPACE, "/tmp", "/var/tmp", "/run/lock"];

/// A path below the workspace: relative, normal, short enough.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

/// A path in the sandbox: absolute, normal, short enough, in no closed folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxPath(String);

/// Why a text is no path for a planted file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// There is nothing in it.
    #[error("a path must not be empty")]
    Empty,
    /// Absolute, in the workspace.
    #[error("must be relative to the workspace: leave the leading `/` out, or plant it with `files`")]
    Absolute,
    /// Relative, outside the workspace.
    #[error("must be absolute, such as `{HOME}/.aws/credentials`: files of the workspace belong in `workspace`")]
    Relative,
    /// A part is `..`.
    #[error("must not hold `..`")]
    DotDot,
    /// A part is `.`.
    #[error("must not hold the part `.`")]
    Dot,
    /// A part is empty: `a//b`, `a/`.
    #[error(
        "must not hold an empty part (`//`, or `/` at the end): only files are planted, their folders come by themselves"
    )]
    EmptyPart,
    /// A control character, NUL and line ends included.
    #[error("must not hold control characters")]
    Control,
    /// A backslash.
    #[error("must not hold a backslash: parts are separated by `/`")]
    Backslash,
    /// One part is too long.
    #[error("has a part of more than {PART_LIMIT} bytes")]
    PartTooLong,
    /// The whole is too long.
    #[error("is longer than {PATH_LIMIT} bytes")]
    TooLong,
    /// Too many folders.
    #[error("lies in more than {DEEPEST} folders")]
    TooDeep,
    /// In a folder where nothing can be planted.
    #[error("nothing can be planted in `{folder}`: {why}")]
    Closed {
        /// The folder.
        folder: &'static str,
        /// Why it is closed.
        why: &'static str,
    },
}

impl WorkspacePath {
    /// Reads a path relative to the workspace.
    ///
    /// # Errors
    /// When it is absolute, not normal, too long, or holds characters that no planted path may have.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        if text.starts_with('/') {
            return Err(PathFault::Absolute);
        }
        check_parts(text)?;
        if WORKSPACE.len() + 1 + text.len() > PATH_LIMIT {
            return Err(PathFault::TooLong);
        }
        // The workspace's own folder is one of them: what is taken here is a path of the sandbox.
        check_depth(&format!("{WORKSPACE}/{text}")[1..])?;
        Ok(WorkspacePath(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same file, as an absolute path in the sandbox.
    pub fn in_sandbox(&self) -> SandboxPath {
        SandboxPath(format!("{WORKSPACE}/{}", self.0))
    }
}

impl SandboxPath {
    /// Reads an absolute path.
    ///
    /// # Errors
    /// When it is relative, not normal, too long, in a closed folder, or holds characters that no planted path may have.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        let Some(parts) = text.strip_prefix('/') else {
            return Err(if text.is_empty() { PathFault::Empty } else { PathFault::Relative });
        };
        check_parts(parts)?;
        if text.len() > PATH_LIMIT {
            return Err(PathFault::TooLong);
        }
        check_depth(parts)?;
        for (folder, why) in CLOSED {
            if text == folder || is_below(text, folder) {
                return Err(PathFault::Closed { folder, why });
            }
        }
        Ok(SandboxPath(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_parts(parts: &str) -> Result<(), PathFault> {
    if parts.is_empty() {
        return Err(PathFault::Empty);
    }
    if parts.contains(char::is_control) {
        return Err(PathFault::Control);
    }
    if parts.contains('\\') {
        return Err(PathFault::Backslash);
    }
    parts.split('/').try_for_each(|part| match part {
        "" => Err(PathFault::EmptyPart),
        "." => Err(PathFault::Dot),
        ".." => Err(PathFault::DotDot),
        _ if part.len() > PART_LIMIT => Err(PathFault::PartTooLong),
        _ => Ok(()),
    })
}

fn check_depth(parts: &str) -> Result<(), PathFault> {
    if parts.matches('/').count() > DEEPEST { Err(PathFault::TooDeep) } else { Ok(()) }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Two planted files that cannot both be there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Collision {
    #[error("`{0}` is planted twice")]
    Twice(SandboxPath),
    #[error("`{file}` is planted as a file, but `{needs_folder}` needs a folder there")]
    FolderNeeded { file: SandboxPath, needs_folder: String },
}

/// Every place where the planted files get in each other's way, or in the way of the folders that a sandbox has.
pub(super) fn collisions<'a>(paths: impl IntoIterator<Item = &'a SandboxPath>) -> Vec<Collision> {
    let mut files = BTreeSet::new();
    let mut found = Vec::new();
    for path in paths {
        if !files.insert(path) {
            found.push(Collision::Twice(path.clone()));
        }
    }
    let mut folders: BTreeMap<&str, &str> = BTreeMap::new();
    for folder in FOLDERS {
        folders.entry(folder).or_insert(folder);
    }
    for path in files.iter().map(|path| path.as_str()).chain(FOLDERS) {
        let mut rest = path;
        while let Some((parent, _)) = rest.rsplit_once('/') {
            folders.entry(parent).or_insert(path);
            rest = parent;
        }
    }
    found.extend(files.into_iter().filter_map(|file| {
        let needs_folder = folders.get(file.as_str())?;
        Some(Collision::FolderNeeded { file: file.clone(), needs_folder: (*needs_folder).to_owned() })
    }));
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sandbox(text: &str) -> SandboxPath {
        SandboxPath::parse(text).unwrap()
    }

    #[test]
    fn an_ordinary_workspace_path_is_taken_as_written() {
        for text in [".env", "src/main.rs", "a b/ü.txt", "..a/...", "-rf", "~"] {
            assert_eq!(WorkspacePath::parse(text).map(|path| path.0), Ok(text.to_owned()));
        }
        assert_eq!(WorkspacePath::parse(".env").unwrap().in_sandbox(), sandbox("/workspace/.env"));
    }

    #[test]
    fn each_bad_workspace_path_is_refused_for_its_own_reason() {
        for (text, fault) in [
            ("", PathFault::Empty),
            ("/etc/passwd", PathFault::Absolute),
            ("../x", PathFault::DotDot),
            ("a/../../x", PathFault::DotDot),
            ("a/..", PathFault::DotDot),
            ("./x", PathFault::Dot),
            ("a//b", PathFault::EmptyPart),
            ("a/", PathFault::EmptyPart),
            ("a\0b", PathFault::Control),
            ("a\nb", PathFault::Control),
            ("a\u{85}b", PathFault::Control),
            ("a\\..\\b", PathFault::Backslash),
            (&"x".repeat(256), PathFault::PartTooLong),
            (&"xy/".repeat(1500)[..4499], PathFault::TooLong),
        ] {
            assert_eq!(WorkspacePath::parse(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn the_longest_paths_that_linux_takes_are_taken() {
        assert!(WorkspacePath::parse(&"x".repeat(255)).is_ok());
        let longest = format!("/{}", "x".repeat(249)).repeat(16) + &format!("/{}", "y".repeat(94));
        assert_eq!(longest.len(), 4095);
        assert!(SandboxPath::parse(&longest).is_ok());
        assert_eq!(SandboxPath::parse(&(longest + "z")), Err(PathFault::TooLong));
        assert!(SandboxPath::parse(&("/x".repeat(129))).is_ok());
        assert_eq!(SandboxPath::parse(&("/x".repeat(130))), Err(PathFault::TooDeep));
        let deep = WorkspacePath::parse(&("x/".repeat(127) + "x")).unwrap().in_sandbox();
        assert_eq!(SandboxPath::parse(deep.as_str()), Ok(deep));
        assert_eq!(WorkspacePath::parse(&("x/".repeat(128) + "x")), Err(PathFault::TooDeep));
    }

    #[test]
    fn nothing_is_planted_in_closed_folders() {
        for text in [
            "/etc/claude-code",
            "/etc/claude-code/managed-settings.json",
            "/proc/1/mem",
            "/sys/x",
            "/dev/shm/x",
            "/proc",
        ] {
            assert!(matches!(SandboxPath::parse(text), Err(PathFault::Closed { .. })), "{text}");
        }
        for text in ["/etc/claude-code.d/x", "/processes", "/home/agent/dev/x"] {
            assert!(SandboxPath::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_relative_path_outside_the_workspace_is_refused() {
        assert_eq!(SandboxPath::parse("home/x"), Err(PathFault::Relative));
        assert_eq!(SandboxPath::parse("~/.ssh/id"), Err(PathFault::Relative));
        assert_eq!(SandboxPath::parse("/"), Err(PathFault::Empty));
        assert_eq!(SandboxPath::parse("//etc/x"), Err(PathFault::EmptyPart));
    }

    #[test]
    fn the_same_file_twice_collides() {
        let paths = [sandbox("/workspace/a"), sandbox("/tmp/b"), sandbox("/workspace/a")];
        assert_eq!(collisions(&paths), [Collision::Twice(sandbox("/workspace/a"))]);
    }

    #[test]
    fn a_file_where_another_needs_a_folder_collides_but_a_common_prefix_does_not() {
        let paths = [sandbox("/tmp/a/b/c"), sandbox("/tmp/a"), sandbox("/tmp/a.txt"), sandbox("/tmp/ab")];
        assert_eq!(
            collisions(&paths),
            [Collision::FolderNeeded { file: sandbox("/tmp/a"), needs_folder: "/tmp/a/b/c".to_owned() }]
        );
    }

    #[test]
    fn the_folders_of_a_sandbox_cannot_be_replaced() {
        for text in ["/workspace", "/home", "/home/agent", "/run", "/var/tmp"] {
            assert_eq!(collisions(&[sandbox(text)]).len(), 1, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_path_that_is_taken_stays_below_the_workspace(text in "[a./\\\\\u{0}\u{7f}é-]{0,12}") {
            if let Ok(path) = WorkspacePath::parse(&text) {
                let path = path.in_sandbox();
                let mut depth = 0_i32;
                for part in path.as_str()["/workspace/".len()..].split('/') {
                    prop_assert!(!matches!(part, "" | "." | ".."));
                    let refused = ['\\', '\0', '\u{7f}'];
                    prop_assert!(!part.contains(refused));
                    depth += 1;
                }
                prop_assert!(depth > 0);
                prop_assert_eq!(SandboxPath::parse(path.as_str()), Ok(path.clone()));
            }
        }

        #[test]
        fn ordinary_parts_are_always_taken(parts in prop::collection::vec("[a-zA-Z0-9_ -]{1,20}", 1..8)) {
            prop_assert!(WorkspacePath::parse(&parts.join("/")).is_ok());
        }
    }
}
