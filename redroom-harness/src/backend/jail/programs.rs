//! The agents' programs, by what sandboxes start from: shown in a jail where they lie, or copied into it.
//!
//! A program is readable and executable by all in every sandbox. A jail shows files with the modes that they have, so that one
//! which is closed to others, or is no executable, is copied for each run; a script, mostly.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::backend::{Base, Owner, PlacedEntry, PlacedKind, Program, ProgramFile};
use crate::error::{By, Error, Result};

/// The most that a file which is copied may weigh, in bytes: it costs every run as much memory.
const COPY_LIMIT: u64 = 16 * 1024 * 1024;

/// One program in a jail.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Files of this machine that are shown where they lie.
    pub(super) files: Vec<ProgramFile>,
    /// Files that are copied.
    pub(super) copies: Vec<PlacedEntry>,
}

/// The programs that were kept.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<HashMap<Base, (Program, Shown)>>);

impl Programs {
    /// # Errors
    ///
    /// `program_unreadable`.
    pub(super) fn keep(&self, program: &Program) -> Result<Base> {
        let shown = Shown::of(program)?;
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Two programs may have one name and version.
        let mut number = 0;
        let base = loop {
            let base = Base(format!("{} {} #{number}", program.name, program.version));
            match programs.get(&base) {
                Some((other, _)) if other != program => number += 1,
                _ => break base,
            }
        };
        programs.insert(base.clone(), (program.clone(), shown));
        Ok(base)
    }

    pub(super) fn of(&self, base: &Base) -> Shown {
        let programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        programs.get(base).map(|(_, shown)| shown.clone()).unwrap_or_default()
    }
}

impl Shown {
    fn of(program: &Program) -> Result<Self> {
        let mut shown = Shown::default();
        for file in &program.files {
            let unreadable = |why: String| {
                let detail = format!("cannot read the agent's program {}: {why}", file.source.display());
                Error::new(By::Agent, "program_unreadable", detail)
            };
            let source = File::open(&file.source).map_err(|error| unreadable(error.to_string()))?;
            let facts = source.metadata().map_err(|error| unreadable(error.to_string()))?;
            if facts.permissions().mode() & 0o555 == 0o555 {
                shown.files.push(file.clone());
                continue;
            }
            if facts.len() > COPY_LIMIT {
                let path = file.source.display();
                return Err(unreadable(format!("the agent's user could not; write `chmod a+rx {path}`")));
            }
            let mut body = Vec::new();
            source.take(COPY_LIMIT).read_to_end(&mut body).map_err(|error| unreadable(error.to_string()))?;
            let kind = PlacedKind::File(Bytes::from(body));
            shown.copies.push(PlacedEntry { path: file.target.clone(), kind, mode: 0o755, owner: Owner::Root });
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_everybody_may_run_is_shown_and_the_rest_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, mode| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let program =
            Program::new("mini", "1").file(path("open", 0o755), "/opt/open").file(path("script", 0o600), "/opt/script");
        let programs = Programs::default();
        let shown = programs.of(&programs.keep(&program).unwrap());
        assert_eq!((shown.files.len(), shown.files[0].target.as_str()), (1, "/opt/open"));
        let [copy] = &shown.copies[..] else { panic!("{:?}", shown.copies) };
        assert_eq!((copy.path.as_str(), copy.mode, copy.owner), ("/opt/script", 0o755, Owner::Root));
        assert_eq!(copy.kind, PlacedKind::File(Bytes::from_static(b"script")));
        let large = path("large", 0o644);
        File::options().write(true).open(&large).unwrap().set_len(COPY_LIMIT + 1).unwrap();
        let error = programs.keep(&Program::new("mini", "1").file(large, "/opt/large")).unwrap_err();
        assert!(error.detail().contains("chmod a+rx"), "{error}");
    }

    #[test]
    fn two_programs_of_one_name_are_two() {
        let programs = Programs::default();
        let program = |source: &str| Program::new("mini", "1").file(source, "/opt/mini");
        let (one, other) = (programs.keep(&program("/bin/sh")).unwrap(), programs.keep(&program("/bin/cat")).unwrap());
        assert_ne!(one, other);
        assert_eq!(programs.keep(&program("/bin/sh")).unwrap(), one);
        assert_eq!(programs.of(&one).files[0].source.to_str(), Some("/bin/sh"));
    }
}
