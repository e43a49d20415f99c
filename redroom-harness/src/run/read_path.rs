//! The path of a file that a test wants to read: absolute and normal, so that every backend is asked the same, and nothing of
//! it is resolved in a tree that the agent built.

use std::fmt;

use crate::backend::WORKSPACE;
use crate::error::{Error, Result};

/// The most bytes of a path, and of one of its parts (Linux: `PATH_MAX`, its NUL included, and `NAME_MAX`).
const LONGEST: usize = 4095;
const LONGEST_PART: usize = 255;

/// An absolute path without empty parts, `.` or `..`, in which there is no NUL. Short enough to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadPath(String);

impl ReadPath {
    /// Reads a path; a relative one starts in the workspace.
    ///
    /// # Errors
    ///
    /// `invalid_path`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let absolute = if text.starts_with('/') { text.to_owned() } else { format!("{WORKSPACE}/{text}") };
        let mut path = String::with_capacity(absolute.len());
        for part in absolute.split('/').filter(|part| !matches!(*part, "" | ".")) {
            let fault = match part {
                ".." => "must not hold `..`: write the path without it",
                _ if part.contains('\0') => "must not hold NUL",
                _ if part.len() > LONGEST_PART => "has a part that is longer than any name",
                _ => {
                    path.push('/');
                    path.push_str(part);
                    continue;
                }
            };
            return Err(invalid(text, fault));
        }
        match path.len() {
            0 => Ok(ReadPath("/".to_owned())),
            1..=LONGEST => Ok(ReadPath(path)),
            _ => Err(invalid(text, "is longer than any path")),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn invalid(text: &str, fault: &str) -> Error {
    let shown: String = text.chars().take(200).collect();
    Error::redroom("invalid_path", format!("the path {shown:?} {fault}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_absolute_and_normal_or_none() {
        for (text, path) in [
            ("notes.md", "/workspace/notes.md"),
            ("./a//b/", "/workspace/a/b"),
            ("/home/agent/.bashrc", "/home/agent/.bashrc"),
            ("//etc/./hosts", "/etc/hosts"),
            ("", "/workspace"),
            ("/", "/"),
            ("...", "/workspace/..."),
            ("%2e%2e/x", "/workspace/%2e%2e/x"),
            ("~/x", "/workspace/~/x"),
        ] {
            assert_eq!(ReadPath::parse(text).unwrap().as_str(), path);
        }
        let long = "x/".repeat(2500);
        for (text, why) in [
            ("..", "`..`"),
            ("a/../b", "`..`"),
            ("/workspace/../../etc/passwd", "`..`"),
            ("a\0b", "NUL"),
            (&"x".repeat(256), "name"),
            (&long, "longer"),
        ] {
            let error = ReadPath::parse(text).unwrap_err();
            assert_eq!(error.code(), "invalid_path");
            assert!(error.detail().contains(why) && error.detail().len() < 2000, "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_path_that_climbs(text in "([a-z./\0]|\\.\\.|/){0,40}") {
            if let Ok(path) = ReadPath::parse(&text) {
                let parts: Vec<_> = path.as_str().split('/').skip(1).collect();
                prop_assert!(path.as_str().starts_with('/') && !path.as_str().contains('\0'));
                prop_assert!(path.as_str() == "/" || !parts.iter().any(|part| matches!(*part, "" | "." | "..")));
            }
        }
    }
}
