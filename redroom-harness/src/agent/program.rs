//! Where an agent's program may come from on this machine.

use std::path::PathBuf;

use super::npm::Package;
use crate::backend::Progress;
use crate::error::Result;

/// Where an agent's program may come from on this machine: redroom's cache, and what npm fetches into it.
///
/// A file of the user's own, or one that the user has built, needs nothing of this: name it in
/// [`Program::file`](super::Program::file). A program of the image or the machine needs no file at all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramSources {
    /// Claude Code's program as the environment names it; it wins over [`ClaudeCode`](super::ClaudeCode)'s own settings.
    pub(crate) claude_code: Option<PathBuf>,
    /// redroom's cache folder of this user: `~/.cache/redroom`. Made when something is fetched into it.
    pub cache: PathBuf,
}

impl ProgramSources {
    /// Fetches a package with `npm pack` at an exact version, once for all sessions of this user, and gives the folder with
    /// its files: [`Program::folder`](super::Program::folder) puts them into the sandbox. No script of the package is run,
    /// and nothing that it depends on is fetched. At most 10 minutes, 2 GiB and 100,000 files.
    ///
    /// # Errors
    ///
    /// `invalid_agent` for a name or version that is none, `npm_missing`, `unknown_agent_version`, `agent_fetch_failed`.
    pub async fn npm(&self, package: &str, version: &str, progress: Progress<'_>) -> Result<PathBuf> {
        Package::whole(&self.cache, package, version)?.cached(progress).await
    }
}
