//! Packages of npm in the cache of this machine: fetched whole or in part, once, by `npm pack`.
//!
//! npm knows its registry, its proxy and its credentials, and verifies what it fetches; none of that is known here. What
//! lies in the cache was put there whole, by a rename.

mod command;
#[cfg(test)]
mod tests;
mod unpack;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::backend::Progress;
use crate::error::{By, Error, Result};
use command::Npm;

/// How long npm may take, and how long another process is waited for that fetches the same.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the other process is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// The longest name that npm takes, in bytes.
const NAME_LIMIT: usize = 214;

/// An exact version: three numbers, and perhaps a pre-release. Safe in a path and on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version(String);

impl Version {
    /// `what` is the program's name, for people.
    pub(super) fn parse(what: &str, text: &str) -> Result<Self> {
        let (numbers, pre_release) = text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
        let is_number = |part: &str| (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_label = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let numbers: Vec<&str> = numbers.split('.').collect();
        if text.len() <= 64
            && numbers.len() == 3
            && numbers.into_iter().all(is_number)
            && pre_release.is_none_or(|rest| rest.split(['.', '-']).all(is_label))
        {
            return Ok(Version(text.to_owned()));
        }
        Err(Error::redroom(
            "invalid_agent",
            format!(
                "{:?} is no version of {what}; name one exactly, such as `2.1.332`",
                text.chars().take(80).collect::<String>()
            ),
        ))
    }
}

/// What is kept of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// All its files, in a folder of this name.
    Whole(&'static str),
    /// One file, as another one.
    File { member: &'static str, name: &'static str },
}

/// One version of a package, and its folder in the cache.
pub(super) struct Package {
    /// What people call it.
    title: String,
    package: String,
    version: Version,
    folder: PathBuf,
    part: Part,
    /// What a user without npm can do instead.
    instead: &'static str,
}

impl Package {
    /// A whole package: `@scope/name`, at an exact version.
    ///
    /// # Errors
    ///
    /// `invalid_agent`.
    pub(super) fn whole(cache: &Path, name: &str, version: &str) -> Result<Self> {
        let version = Version::parse(name, version)?;
        if !is_package(name) {
            let detail = format!(
                "{:?} is no name of an npm package; write one such as `@scope/name`",
                name.chars().take(80).collect::<String>()
            );
            return Err(Error::redroom("invalid_agent", detail));
        }
        Ok(Package {
            title: name.to_owned(),
            package: name.to_owned(),
            folder: cache.join("npm").join(name.replace('/', "+")).join(&version.0),
            version,
            part: Part::Whole("package"),
            instead: "name a program that you have",
        })
    }

    /// One file of a package, kept under a name of its own in `folder`.
    pub(super) fn file(
        folder: &Path,
        title: &str,
        package: String,
        version: Version,
        (member, name): (&'static str, &'static str),
        instead: &'static str,
    ) -> Self {
        let folder = folder.join(&version.0);
        Package { title: title.to_owned(), package, version, folder, part: Part::File { member, name }, instead }
    }

    fn target(&self) -> PathBuf {
        match self.part {
            Part::Whole(name) | Part::File { name, .. } => self.folder.join(name),
        }
    }

    /// The file or folder in the cache, fetched first if it is not there.
    pub(super) async fn cached(&self, progress: Progress<'_>) -> Result<PathBuf> {
        self.fetched(&Npm::of_this_machine(PATIENCE), progress).await
    }

    async fn fetched(&self, npm: &Npm, progress: Progress<'_>) -> Result<PathBuf> {
        if self.target().exists() {
            return Ok(self.target());
        }
        let _lock = self.lock(progress).await?;
        // Another process may have fetched it while this one waited.
        if !self.target().exists() {
            self.fetch(npm, progress).await?;
        }
        Ok(self.target())
    }

    /// The right to fetch. The kernel frees it when its holder dies.
    async fn lock(&self, progress: Progress<'_>) -> Result<File> {
        std::fs::create_dir_all(&self.folder).map_err(|error| self.unwritable(&error))?;
        let lock = File::create(self.folder.join("lock")).map_err(|error| self.unwritable(&error))?;
        let deadline = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(self.unwritable(&error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(self.failed("another process has been fetching it for ten minutes; end that one"));
                }
                Err(TryLockError::WouldBlock) => {
                    if !std::mem::replace(&mut told, true) {
                        progress(&format!(
                            "waiting for another process that fetches {} {}",
                            self.title, self.version.0
                        ));
                    }
                    sleep(LOOK).await;
                }
            }
        }
    }

    async fn fetch(&self, npm: &Npm, progress: Progress<'_>) -> Result<()> {
        progress(&format!("fetching {} {} with npm, once", self.title, self.version.0));
        let scratch = Scratch::new(self.folder.join("partial")).map_err(|error| self.unwritable(&error))?;
        let archive = npm.pack(self, &scratch.0).await?;
        progress(&format!("unpacking {} {}", self.title, self.version.0));
        let (part, unpacked, target) = (self.part.clone(), scratch.0.join("unpacked"), self.target());
        spawn_blocking(move || {
            match part {
                Part::Whole(_) => unpack::whole(&archive, &unpacked)?,
                Part::File { member, .. } => unpack::file(&archive, member, &unpacked)?,
            }
            std::fs::rename(&unpacked, &target)?;
            drop(scratch);
            Ok(())
        })
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
        .map_err(|error: io::Error| self.failed(&format!("its package cannot be unpacked ({error})")))
    }

    fn failed(&self, why: &str) -> Error {
        let detail = format!("{} {} could not be fetched: {why}", self.title, self.version.0);
        Error::new(By::Agent, command::FETCH_FAILED, detail)
    }

    fn unwritable(&self, error: &io::Error) -> Error {
        self.failed(&format!(
            "the cache folder {} cannot be used ({error}); make it writable, or set XDG_CACHE_HOME to another folder",
            self.folder.display()
        ))
    }
}

/// A folder that goes when it is no longer needed. What a killed process left in it goes at the start.
struct Scratch(PathBuf);

impl Scratch {
    /// Its holder has the lock, so that whatever is there is nobody's.
    fn new(folder: PathBuf) -> io::Result<Self> {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&folder)?,
        }
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(folder = %self.0.display(), %error, "a folder of a fetch stays until the next one");
        }
    }
}

/// `name` or `@scope/name`, of what npm allows in new names. Safe in a path and on a command line.
fn is_package(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
    };
    name.len() <= NAME_LIMIT
        && match name.strip_prefix('@') {
            Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| plain(scope) && plain(name)),
            None => plain(name),
        }
}
