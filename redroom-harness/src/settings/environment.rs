//! The environment, read once.

use std::env::VarError;
use std::path::{Path, PathBuf};

use crate::agent::ProgramSources;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::outbound::Proxies;

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
/// | `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` | the proxy that leads to services at https addresses elsewhere; in lower case, too |
/// | `ANTHROPIC_BASE_URL` | whose key that is, where it is not Anthropic's own, as Anthropic's clients have it |
///
/// Any other `REDROOM_…` is a slip, but for `REDROOM_TEST_…`, which belongs to tests.
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
    /// `HTTPS_PROXY`, or else `ALL_PROXY`; may hold a password.
    pub(crate) https_proxy: Option<String>,
    pub(crate) no_proxy: Option<String>,
    pub(crate) anthropic_base_url: Option<String>,
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
        check_names(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
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
            https_proxy: first(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])?,
            no_proxy: first(&["NO_PROXY", "no_proxy"])?,
            anthropic_base_url: text("ANTHROPIC_BASE_URL")?,
            manifest_dir: path("CARGO_MANIFEST_DIR"),
            cache_dir: path("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()).or(home.map(|home| home.join(".cache"))),
        })
    }

    /// The proxies of this machine's network.
    pub(crate) fn proxies(&self) -> Proxies {
        Proxies::new(self.https_proxy.as_deref(), self.no_proxy.as_deref())
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

/// The variables of ours.
const NAMES: [&str; 7] = ["BACKEND", "PARALLEL", "OUT", "JUNIT", "CONFIG", "REQUIRE", "CLAUDE_CODE"];

/// Refuses a variable of ours that does not exist: what it was meant to set would silently not be set.
fn check_names(names: impl Iterator<Item = String>) -> Result<()> {
    let mut ours: Vec<String> = names.filter_map(|name| name.strip_prefix("REDROOM_").map(str::to_owned)).collect();
    ours.retain(|name| !NAMES.contains(&name.as_str()) && !name.starts_with("TEST_"));
    ours.sort();
    let Some(unknown) = ours.first() else { return Ok(()) };
    let hint = match nearest(unknown, NAMES) {
        Some(known) => format!("did you mean REDROOM_{known}?"),
        None => format!("there are {}", NAMES.map(|name| format!("REDROOM_{name}")).join(", ")),
    };
    Err(Error::redroom(
        "invalid_environment",
        format!("the environment sets REDROOM_{unknown}, which means nothing; {hint}"),
    ))
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

/// The first of these variables that says something.
fn first(names: &[&str]) -> Result<Option<String>> {
    names.iter().find_map(|name| text(name).transpose()).transpose()
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
    fn a_variable_that_is_none_of_ours_is_told_with_the_nearest_one() {
        let check = |names: &[&str]| check_names(names.iter().map(|name| (*name).to_owned()));
        for (name, hint) in [
            ("REDROOM_PARALEL", "did you mean REDROOM_PARALLEL?"),
            ("REDROOM_REQUIER", "did you mean REDROOM_REQUIRE?"),
            ("REDROOM_backend", "REDROOM_BACKEND"),
            ("REDROOM_COLOUR", "there are REDROOM_BACKEND, REDROOM_PARALLEL"),
        ] {
            let error = check(&["PATH", "REDROOM_OUT", name]).unwrap_err();
            assert_eq!(error.code(), "invalid_environment");
            assert!(error.detail().contains(name) && error.detail().contains(hint), "{error}");
        }
        let known = NAMES.map(|name| format!("REDROOM_{name}"));
        assert!(check(&known.each_ref().map(String::as_str)).is_ok());
        assert!(check(&["REDROOM_TEST_SOAK", "REDROOMS_OWN", "MY_REDROOM_X"]).is_ok());
    }

    #[test]
    fn a_list_of_requirements_is_read_with_commas_or_spaces() {
        let environment = Environment { require: words("docker, jail"), ..Environment::default() };
        assert!(environment.requires("docker") && environment.requires("jail") && !environment.requires("dock"));
    }
}
