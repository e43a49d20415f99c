//! Where the program comes from: a file that the user named, the cache, or `npm pack`.
//!
//! npm knows its registry, its proxy and its credentials, and verifies what it fetches; none of that is known here. What
//! lies in the cache was put there whole, by a rename.

mod npm;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::backend::Progress;
use crate::error::{By, Error, Result};
use npm::Npm;

/// How long npm may take, and how long another process is waited for that fetches the same.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the other process is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// More than any version so far by a factor of five: the bound of a hostile archive.
const SIZE_LIMIT: u64 = 2 * 1024 * 1024 * 1024;
/// The program inside the package.
const MEMBER: &str = "package/claude";

/// An exact version: three numbers, and perhaps a pre-release. Safe in a path and on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version(String);

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (numbers, pre_release) = text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
        let is_number = |part: &str| (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_label = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let numbers: Vec<&str> = numbers.split('.').collect();
        if text.len() <= 64
            && numbers.len() == 3
            && numbers.into_iter().all(is_number)
            && pre_release.is_none_or(|rest| rest.split('.').all(is_label))
        {
            return Ok(Version(text.to_owned()));
        }
        Err(Error::redroom(
            "invalid_agent",
            format!(
                "{:?} is no version of Claude Code; name one exactly, such as `2.1.332`",
                text.chars().take(80).collect::<String>()
            ),
        ))
    }
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

/// The file in the cache, fetched first if it is not there.
pub(super) async fn cached(cache: &Path, version: &Version, progress: Progress<'_>) -> Result<PathBuf> {
    Store::new(cache, version)?.program(&Npm::of_this_machine(PATIENCE), progress).await
}

/// One version's folder in the cache.
struct Store {
    folder: PathBuf,
    package: String,
    version: Version,
}

impl Store {
    fn new(cache: &Path, version: &Version) -> Result<Self> {
        let processor = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => {
                let detail =
                    format!("there is no Claude Code for this processor ({other}); use one of x86_64 and aarch64");
                return Err(Error::new(By::Agent, "agent_unsupported", detail));
            }
        };
        Ok(Store {
            folder: cache.join(super::NAME).join(&version.0),
            package: format!("@anthropic-ai/claude-code-linux-{processor}"),
            version: version.clone(),
        })
    }

    fn target(&self) -> PathBuf {
        self.folder.join("claude")
    }

    async fn program(&self, npm: &Npm, progress: Progress<'_>) -> Result<PathBuf> {
        if self.target().is_file() {
            return Ok(self.target());
        }
        let _lock = self.lock(progress).await?;
        // Another process may have fetched it while this one waited.
        if !self.target().is_file() {
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
                        progress(&format!("waiting for another process that fetches Claude Code {}", self.version.0));
                    }
                    sleep(LOOK).await;
                }
            }
        }
    }

    async fn fetch(&self, npm: &Npm, progress: Progress<'_>) -> Result<()> {
        progress(&format!("fetching Claude Code {} with npm: about 200 MB, once", self.version.0));
        let scratch = Scratch::new(self.folder.join("partial")).map_err(|error| self.unwritable(&error))?;
        let archive = npm.pack(&self.package, &self.version.0, &scratch.0).await?;
        progress(&format!("unpacking Claude Code {}", self.version.0));
        let (unpacked, target) = (scratch.0.join("claude"), self.target());
        spawn_blocking(move || {
            unpack(&archive, &unpacked)?;
            std::fs::rename(&unpacked, &target)?;
            drop(scratch);
            Ok(())
        })
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
        .map_err(|error: io::Error| self.failed(&format!("its package cannot be unpacked ({error})")))
    }

    fn failed(&self, why: &str) -> Error {
        let detail = format!("Claude Code {} could not be fetched: {why}", self.version.0);
        Error::new(By::Agent, npm::FETCH_FAILED, detail)
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

/// Takes the program, and nothing else, out of the package.
fn unpack(archive: &Path, target: &Path) -> io::Result<()> {
    let mut package = tar::Archive::new(flate2::read::GzDecoder::new(io::BufReader::new(File::open(archive)?)));
    for entry in package.entries()? {
        let mut entry = entry?;
        if entry.path_bytes().as_ref() != MEMBER.as_bytes() || !entry.header().entry_type().is_file() {
            continue;
        }
        let size = entry.header().entry_size()?;
        if size > SIZE_LIMIT {
            return Err(io::Error::other(format!("{MEMBER} would be {size} bytes large")));
        }
        let mut program = File::create_new(target)?;
        io::copy(&mut entry, &mut program)?;
        make_executable(&program)?;
        return program.sync_all();
    }
    Err(io::Error::other(format!("there is no {MEMBER} in it")))
}

fn make_executable(program: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    program.set_permissions(std::fs::Permissions::from_mode(0o755))
}
