//! Where the program comes from: a file that the user named, or one file of npm's package for this processor.

use std::path::{Path, PathBuf};

use crate::agent::npm::{Package, Version};
use crate::error::{By, Error, Result};

/// What people call it.
const TITLE: &str = "Claude Code";

/// The version that was asked for.
///
/// # Errors
///
/// `invalid_agent`.
pub(super) fn version(text: &str) -> Result<Version> {
    Version::parse(TITLE, text)
}

/// The file that the user named.
pub(super) fn named(path: &Path) -> Result<PathBuf> {
    let missing = |why: &str| {
        let detail =
            format!("Claude Code's program {} {why}; name the file itself, as in the npm package", path.display());
        Error::new(By::Agent, "agent_binary_missing", detail)
    };
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => std::path::absolute(path).map_err(|error| missing(&error.to_string())),
        Ok(_) => Err(missing("is not a file")),
        Err(error) => Err(missing(&format!("cannot be used ({error})"))),
    }
}

/// The package that has the program for this processor.
///
/// # Errors
///
/// `agent_unsupported`.
pub(crate) fn package(cache: &Path, version: Version) -> Result<Package> {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => {
            let detail = format!("there is no Claude Code for this processor ({other}); use one of x86_64 and aarch64");
            return Err(Error::new(By::Agent, "agent_unsupported", detail));
        }
    };
    let package = format!("@anthropic-ai/claude-code-linux-{processor}");
    let instead = "set REDROOM_CLAUDE_CODE to a program that you have";
    Ok(Package::file(&cache.join(super::NAME), TITLE, package, version, ("package/claude", "claude"), instead))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_named_file_must_be_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(named(folder.path()).unwrap_err().code(), "agent_binary_missing");
        assert_eq!(named(&folder.path().join("none")).unwrap_err().code(), "agent_binary_missing");
        let file = folder.path().join("claude");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(named(&file).unwrap(), file);
    }
}
