//! The environment, read once.

use std::env::VarError;
use std::path::{Path, PathBuf};

use crate::agent::ProgramSources;
use crate::error::{Error, Result};

/// What the environment says.
///
/// | variable | meaning |
/// | --- | --- |
/// | `REDROOM_BACKEND` | `auto`, `docker` or `jail` |
/// | `REDROOM_PARALLEL` | how many runs may be live at once |
/// | `REDROOM_OUT` | the folder that evidence is written to |
/// | `REDROOM_JUNIT` | the file that a JUnit report is written to |
/// | `REDROOM_CONFIG` | the settings file, in place of `redroom.toml` |
/// | `REDROOM_REQUIRE` | backends that must be there: `docker`, `jail` |
/// | `REDROOM_CLAUDE_CODE` | the program of Claude Code, in place of the one that would be fetched |
/// | `ANTHROPIC_API_KEY` | the key of the model where no other is set; it stays in the harness |
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) backend: Option<String>,
    pub(crate) parallel: Option<u32>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) junit: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) require: Vec<String>,
    pub(crate) claude_code: Option<PathBuf>,
    pub(crate) anthropic_api_key: Option<String>,
    pub(crate) manifest_dir: Option<PathBuf>,
    pub(crate) cache_dir: Option<PathBuf>,
}

impl Environment {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// A variable of ours that is not text, or not what it should be.
    pub(crate) fn read() -> Result<Self> {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME").filter(|home| home.is_absolute());
        Ok(Environment {
            backend: text("REDROOM_BACKEND")?,
            parallel: match text("REDROOM_PARALLEL")? {
                None => None,
                Some(text) => Some(text.parse().map_err(|_| {
                    Error::redroom("invalid_parallel", format!("REDROOM_PARALLEL={text}: give a number from 1 to 245"))
                })?),
            },
            out: path("REDROOM_OUT"),
            junit: path("REDROOM_JUNIT"),
            config: path("REDROOM_CONFIG"),
            require: text("REDROOM_REQUIRE")?.map(|list| words(&list)).unwrap_or_default(),
            claude_code: path("REDROOM_CLAUDE_CODE"),
            anthropic_api_key: text("ANTHROPIC_API_KEY")?,
            manifest_dir: path("CARGO_MANIFEST_DIR"),
            cache_dir: path("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()).or(home.map(|home| home.join(".cache"))),
        })
    }

    /// Whether this backend must be there.
    pub(crate) fn requires(&self, backend: &str) -> bool {
        self.require.iter().any(|required| required == backend)
    }

    /// The folder for one session's evidence: under `REDROOM_OUT`, else `redroom` of the target folder that the executable
    /// lies in, else of `./target`.
    pub(crate) fn evidence_folder(&self, session: &str) -> PathBuf {
        let root = match &self.out {
            Some(out) => out.clone(),
            None => target_folder().unwrap_or_else(|| PathBuf::from("target")).join("redroom"),
        };
        // Absolute, so that what is printed can be found from anywhere.
        let root = std::path::absolute(&root).unwrap_or(root);
        root.join(session)
    }

    /// Where agents' programs may be found on this machine.
    pub(crate) fn program_sources(&self) -> ProgramSources {
        let cache = self.cache_dir.clone().unwrap_or_else(std::env::temp_dir).join("redroom");
        ProgramSources { claude_code: self.claude_code.clone(), cache }
    }
}

/// The target folder that the running executable lies in: the ancestor that cargo has marked as a cache.
fn target_folder() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    executable.ancestors().skip(1).find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

fn text(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Error::redroom(
            "invalid_environment",
            format!("{name} is not text; unset it or give it a readable value"),
        )),
    }
}

fn words(list: &str) -> Vec<String> {
    list.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("backend", &self.backend).field("out", &self.out).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_a_test_lies_in_its_target_folder() {
        let folder = Environment::default().evidence_folder("session");
        assert!(folder.is_absolute());
        assert!(folder.ends_with("redroom/session"), "{}", folder.display());
        assert!(folder.ancestors().any(|ancestor| ancestor.join("CACHEDIR.TAG").is_file()));
    }

    #[test]
    fn a_list_of_requirements_is_read_with_commas_or_spaces() {
        let environment = Environment { require: words("docker, jail"), ..Environment::default() };
        assert!(environment.requires("docker") && environment.requires("jail") && !environment.requires("dock"));
    }
}
