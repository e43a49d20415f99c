//! An agent's program as a backend takes it: files of this machine, and where they belong in the sandbox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{By, Error, Result};

/// The most files that a program may have.
const FILES_LIMIT: usize = 100_000;

/// What an agent needs to be there before its first turn. What becomes of it is the backend's: a layer of an image, or files of
/// this machine shown in a jail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Program {
    /// A short name for images and messages, such as `claude-code`: lower-case letters, digits, hyphens.
    pub name: String,
    /// The version, for the same.
    pub version: String,
    /// Files of this machine that belong in the sandbox, readable and executable by all, owned by root.
    pub files: Vec<ProgramFile>,
}

/// One file of an agent's program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProgramFile {
    /// Where it lies on this machine.
    pub source: PathBuf,
    /// Where it belongs in the sandbox, absolute and normal.
    pub target: String,
}

impl Program {
    /// A program that is there already: of redroom's image in Docker, of this machine (`/usr`, `/bin` …) in a jail. Files are
    /// added to it.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Program { name: name.into(), version: version.into(), files: Vec::new() }
    }

    /// One more file of this machine, at an absolute path of the sandbox: `/usr/local/bin/agent`, `/opt/agent/main.py`. A
    /// relative source is taken from the current folder, which for tests is their package's.
    #[must_use]
    pub fn file(mut self, source: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        self.files.push(ProgramFile { source: from_here(source.into()), target: target.into() });
        self
    }

    /// All files below a folder of this machine, which may be relative as well, at the same places below a folder of the sandbox.
    /// Links to files are files; links to folders are left out. At most 100,000.
    ///
    /// # Errors
    ///
    /// `program_unreadable`.
    pub fn folder(mut self, source: impl AsRef<Path>, target: &str) -> Result<Self> {
        let source = &from_here(source.as_ref().to_owned());
        let unreadable = |path: &Path, error: &io::Error| unreadable(path, &error.to_string());
        let mut folders = vec![(source.to_owned(), target.trim_end_matches('/').to_owned())];
        while let Some((folder, target)) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
                let entry = entry.map_err(|error| unreadable(&folder, &error))?;
                let path = entry.path();
                let name =
                    entry.file_name().into_string().map_err(|_| self::unreadable(&path, "its name is not text"))?;
                let target = format!("{target}/{name}");
                let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
                if kind.is_dir() {
                    folders.push((path, target));
                } else if path.is_file() {
                    self.files.push(ProgramFile { source: path, target });
                }
                if self.files.len() > FILES_LIMIT {
                    return Err(self::unreadable(source, &format!("it has more than {FILES_LIMIT} files")));
                }
            }
        }
        // Their order is part of what tells programs apart.
        self.files.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(self)
    }

    /// Whether every backend can take it: known before anything is started.
    ///
    /// # Errors
    ///
    /// `invalid_program`, `program_unreadable`.
    pub(crate) fn check(&self) -> Result<()> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &self.name;
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts_well || !name.chars().all(plain) || name.ends_with('-') || name.contains("---") || name.len() > 100 {
            let detail = format!("{name:?} cannot name an agent: use lower-case letters, digits and hyphens");
            return Err(Error::redroom("invalid_program", detail));
        }
        for ProgramFile { source, target } in &self.files {
            let normal = target.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !rest.contains('\0')
            });
            if !normal {
                let detail = format!("{target:?} is no place for a program: it must be absolute and normal");
                return Err(Error::redroom("invalid_program", detail));
            }
            let facts = fs::metadata(source).map_err(|error| unreadable(source, &error.to_string()))?;
            if !facts.is_file() {
                return Err(unreadable(source, "it is not a file"));
            }
            fs::File::open(source).map_err(|error| unreadable(source, &error.to_string()))?;
        }
        Ok(())
    }
}

/// Whoever looks for it later may stand elsewhere: a jail's processes do.
fn from_here(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn unreadable(path: &Path, why: &str) -> Error {
    let detail =
        format!("cannot read the agent's program {}: {why}; build or install it, or name another file", path.display());
    Error::new(By::Agent, "program_unreadable", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program::new("mini", "1.0")
    }

    #[test]
    fn relative_sources_are_taken_from_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        let program =
            program().file("Cargo.toml", "/opt/mini/one").folder("src/backend/jail/sys", "/opt/mini").unwrap();
        assert!(program.files.iter().any(|file| file.source == here.join("Cargo.toml")), "{program:?}");
        assert!(
            program.files.len() > 1 && program.files.iter().all(|file| file.source.starts_with(&here)),
            "{program:?}"
        );
        assert_eq!(program.check(), Ok(()));
    }

    #[test]
    fn a_folder_gives_its_files_in_order_and_no_linked_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lib/deep")).unwrap();
        for file in ["main", "lib/deep/b", "lib/a"] {
            fs::write(folder.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("/etc", folder.path().join("linked")).unwrap();
        std::os::unix::fs::symlink("main", folder.path().join("alias")).unwrap();
        let files = program().folder(folder.path(), "/opt/mini/").unwrap().files;
        let targets: Vec<&str> = files.iter().map(|file| file.target.as_str()).collect();
        assert_eq!(targets, ["/opt/mini/alias", "/opt/mini/lib/a", "/opt/mini/lib/deep/b", "/opt/mini/main"]);
        assert_eq!(program().folder("/nowhere", "/opt").unwrap_err().code(), "program_unreadable");
    }

    #[test]
    fn what_no_backend_could_take_is_refused_with_a_word_on_what_to_do() {
        let code = |program: Program| program.check().map_err(|error| error.code().to_owned());
        assert_eq!(code(program().file("/etc/hostname", "/opt/x")), Ok(()));
        for target in ["relative", "/a/../b", "/a//b", "/", "/a\0b"] {
            assert_eq!(code(program().file("/etc/hostname", target)), Err("invalid_program".to_owned()), "{target:?}");
        }
        for source in ["/nowhere/agent", "/etc"] {
            assert_eq!(code(program().file(source, "/opt/x")), Err("program_unreadable".to_owned()), "{source}");
        }
        for name in ["", "Claude", "-x", "x-", "a b", "a/b", "1x"] {
            assert_eq!(code(Program::new(name, "1")), Err("invalid_program".to_owned()), "{name:?}");
        }
    }
}
