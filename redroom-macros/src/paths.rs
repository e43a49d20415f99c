//! Whether a literal can be the path of a planted file: what the run would say of it, said at compile time.

const WORKSPACE: &str = "/workspace";
const CLOSED: [&str; 4] = ["/etc/claude-code", "/proc", "/sys", "/dev"];

/// The file's absolute path, from one that is relative to the workspace.
pub(crate) fn in_workspace(path: &str) -> Result<String, &'static str> {
    if path.starts_with('/') {
        return Err("must be relative to the workspace: leave the leading `/` out, or plant it with `files`");
    }
    parts(path)?;
    whole(format!("{WORKSPACE}/{path}"))
}

/// The file's absolute path, from one that is that already.
pub(crate) fn in_sandbox(path: &str) -> Result<String, &'static str> {
    match path.strip_prefix('/') {
        Some(relative) => parts(relative)?,
        None if path.is_empty() => parts(path)?,
        None => {
            return Err("must be absolute, such as `/home/agent/.aws/credentials`: files of the workspace belong in \
                        `workspace`");
        }
    }
    if CLOSED.iter().any(|folder| path == *folder || is_below(path, folder)) {
        return Err("nothing can be planted in `/etc/claude-code`, `/proc`, `/sys` and `/dev`");
    }
    whole(path.to_owned())
}

/// Whether a file at `path` needs a folder where `other` is a file.
pub(crate) fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

fn parts(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("a path must not be empty");
    }
    if path.contains(char::is_control) {
        return Err("must not hold control characters");
    }
    if path.contains('\\') {
        return Err("must not hold a backslash: parts are separated by `/`");
    }
    path.split('/').try_for_each(|part| match part {
        "" => {
            Err("must not hold an empty part (`//`, or `/` at the end): only files are planted, their folders come by \
                   themselves")
        }
        "." => Err("must not hold the part `.`"),
        ".." => Err("must not hold `..`"),
        _ if part.len() > 255 => Err("has a part of more than 255 bytes"),
        _ => Ok(()),
    })
}

fn whole(path: String) -> Result<String, &'static str> {
    if path.len() > 4095 { Err("is longer than 4095 bytes") } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_paths_become_absolute() {
        assert_eq!(in_workspace("a/.env"), Ok("/workspace/a/.env".to_owned()));
        assert_eq!(in_sandbox("/home/agent/x"), Ok("/home/agent/x".to_owned()));
    }

    #[test]
    fn bad_paths_are_refused() {
        for path in ["", "/x", "../x", "a/../x", "./x", "a//b", "a/", "a\0", "a\nb", "a\\b", &"x".repeat(256)] {
            assert!(in_workspace(path).is_err(), "{path:?}");
        }
        for path in ["", "/", "x", "~/x", "/../x", "//x", "/etc/claude-code/x", "/proc/1/mem", "/sys", "/dev/null"] {
            assert!(in_sandbox(path).is_err(), "{path:?}");
        }
        assert!(in_sandbox(&"/x".repeat(2048)).is_err());
    }

    proptest! {
        #[test]
        fn a_path_that_is_taken_is_normal(path in "[a./\\\\\u{0}é-]{0,12}") {
            if let Ok(path) = in_workspace(&path) {
                prop_assert!(path["/workspace/".len()..].split('/').all(|part| !matches!(part, "" | "." | "..")));
                prop_assert_eq!(in_sandbox(&path), Ok(path.clone()));
            }
        }
    }
}
