//! The environment, read once.

use std::env::VarError;
use std::path::{Path, PathBuf};

use uuid::Uuid;

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
/// | `REDROOM_RUN` | which run this process is a part of, where neither cargo nor nextest says so: parts of one run make one report |
/// | `REDROOM_CONFIG` | the settings file, in place of `redroom.toml` |
/// | `REDROOM_PROFILE` | which profile of the settings file is laid over the rest of it |
/// | `REDROOM_REQUIRE` | backends that must be there: `docker`, `jail` |
/// | `REDROOM_CLAUDE_CODE` | the program of Claude Code, in place of the one that would be fetched |
/// | `REDROOM_TAGS`, `REDROOM_SKIP_TAGS` | which attacks are run, by their tags; the command line reads them |
/// | `NEXTEST_RUN_ID`, `NEXTEST_ATTEMPT` | the run, and which attempt at the test it is |
/// | `GITHUB_STEP_SUMMARY` | the file that a table of the attacks is added to |
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
    pub(crate) step_summary: Option<PathBuf>,
    /// The name of the run that this process is a part of, if anybody gave it one.
    pub(crate) run: Option<String>,
    /// The name of the folder that evidence of the run's processes goes into together, if it is one.
    pub(crate) run_folder: Option<String>,
    /// Which attempt at its tests this process is, from 1; 0 counts as 1.
    pub(crate) attempt: u32,
    pub(crate) config: Option<PathBuf>,
    pub(crate) profile: Option<String>,
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
            step_summary: path("GITHUB_STEP_SUMMARY"),
            run: text("REDROOM_RUN")?.or(text("NEXTEST_RUN_ID")?),
            run_folder: text("NEXTEST_RUN_ID")?.filter(|id| Uuid::try_parse(id).is_ok()),
            attempt: text("NEXTEST_ATTEMPT")?.and_then(|attempt| attempt.parse().ok()).unwrap_or(1),
            config: path("REDROOM_CONFIG"),
            profile: text("REDROOM_PROFILE")?,
            require: required(text("REDROOM_REQUIRE")?.as_deref().unwrap_or_default())?,
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

    /// Which run this process is a part of, for reports that several processes write: whoever started it knows, else it is
    /// everything that the same parent process starts.
    pub(crate) fn run(&self) -> String {
        self.run.clone().unwrap_or_else(|| {
            let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
            format!("{parent}-{}", began(parent).unwrap_or_default())
        })
    }

    /// Which attempt at its tests this process is, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.max(1)
    }

    /// The name of a folder for evidence, with the attempt if it is not the first.
    pub(crate) fn attempt_name(&self, name: &str) -> String {
        match self.attempt() {
            1 => name.to_owned(),
            attempt => format!("{name}.attempt-{attempt}"),
        }
    }

    /// The folder for one session's evidence, or where a runner starts a process for each test, for all of them: under `REDROOM_OUT`, else `redroom` of the target folder that the executable
    /// lies in, else of `./target`.
    pub(crate) fn evidence_folder(&self, session: &str) -> PathBuf {
        let root = match &self.out {
            Some(out) => out.clone(),
            None => target_folder().unwrap_or_else(|| PathBuf::from("target")).join("redroom"),
        };
        // Absolute, so that what is printed can be found from anywhere.
        let root = std::path::absolute(&root).unwrap_or(root);
        root.join(self.run_folder.as_deref().unwrap_or(session))
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
pub(super) const NAMES: [&str; 11] =
    ["BACKEND", "PARALLEL", "OUT", "JUNIT", "CONFIG", "PROFILE", "REQUIRE", "CLAUDE_CODE", "RUN", "TAGS", "SKIP_TAGS"];

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

/// When a process began, in the system's own count: a number can be another process's after a while.
fn began(process: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses can hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
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

/// The backends of a list. What is none of them would silently not be required.
fn required(list: &str) -> Result<Vec<String>> {
    const BACKENDS: [&str; 2] = ["docker", "jail"];
    let words: Vec<String> = list.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let Some(unknown) = words.iter().find(|word| !BACKENDS.contains(&word.as_str())) else { return Ok(words) };
    let hint = nearest(unknown, BACKENDS).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let detail = format!("REDROOM_REQUIRE={list}: {unknown:?} is no backend; name docker, jail or both{hint}");
    Err(Error::redroom("invalid_environment", detail))
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
    fn processes_of_one_parent_are_one_run_unless_somebody_says_otherwise() {
        let alone = Environment::default();
        assert_eq!(alone.run(), Environment::default().run());
        assert!(alone.run().split_once('-').is_some_and(|(parent, began)| parent != "0" && !began.is_empty()));
        assert_eq!(Environment { run: Some("nightly".to_owned()), ..Environment::default() }.run(), "nightly");
    }

    #[test]
    fn attempts_of_one_run_lie_side_by_side() {
        let id = "0b6e2a44-6a3c-4a58-9d0b-0d7b8a3a9f10";
        let again = Environment { run_folder: Some(id.to_owned()), attempt: 2, ..Environment::default() };
        assert!(again.evidence_folder("session").ends_with(format!("redroom/{id}")));
        assert_eq!(again.attempt_name("web.page"), "web.page.attempt-2");
        assert_eq!(Environment::default().attempt_name("web.page"), "web.page");
    }

    #[test]
    fn a_list_of_requirements_is_read_with_commas_or_spaces_and_names_backends() {
        let environment = Environment { require: required("docker, jail").unwrap(), ..Environment::default() };
        assert!(environment.requires("docker") && environment.requires("jail") && !environment.requires("dock"));
        assert_eq!(required("").unwrap(), Vec::<String>::new());
        let error = required("jail,dokcer").unwrap_err();
        assert_eq!(error.code(), "invalid_environment");
        assert!(error.detail().contains("\"dokcer\"") && error.detail().contains("did you mean docker?"), "{error}");
    }
}
