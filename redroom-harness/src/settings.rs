//! Settings, joined once at the top: environment over code over `redroom.toml` over defaults. Nothing below reads any of
//! them again.

mod environment;
mod file;
mod keys;
#[cfg(test)]
mod told;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redroom_sidecar::Lease;

use crate::agent::{Agent, ClaudeCode};
use crate::error::{Error, Result};
use crate::guard::ToolCallCheck;
use crate::limits::{CheckedLimits, Limits};
use crate::model::{Player, Provider, ProviderTools};
use crate::nearest::nearest;
use crate::options::RunOptions;
use crate::outbound::Client;
use crate::setup::{self, Setup};
use crate::slot::MAX_PARALLEL;
use crate::suite::Suite;

pub(crate) use environment::Environment;
pub(crate) use file::{ConfigFile, Profile};

/// The agent's version where nobody names one.
pub(crate) const CLAUDE_CODE_VERSION: &str = "2.1.332";
/// The domain that the fake internet answers for where nobody names one.
pub const DEFAULT_DOMAIN: &str = "redroom.test";

/// Everything that was set, checked.
pub(crate) struct Settings {
    pub(crate) environment: Environment,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) player: Player,
    pub(crate) tool_call_check: ToolCallCheck,
    pub(crate) provider_tools: ProviderTools,
    pub(crate) parallel: u32,
    pub(crate) limits: Limits,
    pub(crate) fake_domain: String,
    pub(crate) catch_all: bool,
    pub(crate) backend: BackendChoice,
    pub(crate) lease: Lease,
    /// The file of the JUnit report.
    pub(crate) junit: Option<PathBuf>,
    pub(crate) ignored_without_backend: bool,
    /// What is planted in every run.
    pub(crate) setup: Option<Arc<dyn Fn() -> Setup + Send + Sync>>,
    pub(crate) client: Client,
    /// The profile of the file that lies over the rest of it.
    pub(crate) profile: Option<String>,
    /// What is to be said of a settings file that was named and is not read.
    pub(crate) unread: Option<String>,
}

/// Which backend was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendChoice {
    Auto,
    Docker,
    Jail,
}

/// What one run is to be, with every setting in its place.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) player: Player,
    pub(crate) tool_call_check: ToolCallCheck,
    pub(crate) provider_tools: ProviderTools,
    pub(crate) limits: CheckedLimits,
}

impl Settings {
    /// Reads environment and file, and joins them with what the code says. `profile` is the command line's, which is stronger
    /// than the environment's.
    pub(crate) fn load(suite: Suite, profile: Option<&str>) -> Result<Self> {
        let environment = Environment::read()?;
        let profile = match (profile, &environment.profile) {
            (Some(name), _) => Some(Profile { name: name.to_owned(), chosen_by: "--profile" }),
            (None, Some(name)) => Some(Profile { name: name.clone(), chosen_by: "REDROOM_PROFILE" }),
            (None, None) => None,
        };
        let file = ConfigFile::find(&environment, suite.manifest_dir.as_deref(), profile.as_ref())?;
        let settings = Self::join(environment, suite, file)?;
        Ok(Settings { profile: profile.map(|profile| profile.name), ..settings })
    }

    /// What code and environment say, without a file.
    #[cfg(test)]
    pub(crate) fn of(environment: Environment, suite: Suite) -> Result<Self> {
        Self::join(environment, suite, ConfigFile::default())
    }

    pub(crate) fn join(environment: Environment, suite: Suite, file: ConfigFile) -> Result<Self> {
        let parallel = match environment.parallel {
            Some(parallel) => said_by("REDROOM_PARALLEL", in_range(parallel))?,
            None => in_range(suite.parallel.or(file.parallel).unwrap_or(4))?,
        };
        let backend = match &environment.backend {
            Some(backend) => said_by("REDROOM_BACKEND", BackendChoice::parse(backend))?,
            None => BackendChoice::parse(suite.backend.or(file.backend.clone()).as_deref().unwrap_or("auto"))?,
        };
        let fake_domain = suite.fake_domain.or(file.fake_domain.clone()).unwrap_or_else(|| DEFAULT_DOMAIN.to_owned());
        let limits = suite.limits.over(&file.limits);
        limits.check()?;
        Ok(Settings {
            agent: suite.agent.or(file.agent.clone()).unwrap_or_else(|| Arc::new(ClaudeCode::new(CLAUDE_CODE_VERSION))),
            player: match suite.player {
                Some(player) => player,
                None => match file.model_proxy() {
                    Ok(proxy) => proxy.map_or(Player::Provider, Player::Proxy),
                    Err(error) => Player::Lacking(error),
                },
            },
            tool_call_check: match suite.tool_call_check {
                Some(check) => check,
                None => file.tool_call_check()?.unwrap_or_else(ToolCallCheck::none),
            },
            provider_tools: ProviderTools::named(suite.provider_tools.or(file.provider_tools).unwrap_or_default())?,
            parallel,
            limits,
            fake_domain: domain(&fake_domain)?,
            catch_all: suite.catch_all.or(file.catch_all).unwrap_or(false),
            backend: match backend {
                // What must be there is not quietly replaced.
                BackendChoice::Auto if environment.requires("docker") => BackendChoice::Docker,
                choice => choice,
            },
            lease: suite.lease.map_or_else(|| Ok(Lease::default()), lease)?,
            junit: environment.junit.clone().or(file.junit.clone()),
            unread: file.unread.clone(),
            ignored_without_backend: suite.ignored_without_backend,
            setup: suite.setup,
            client: Client::new(environment.proxies())?,
            environment,
            profile: None,
        })
    }

    /// One run's options over the suite's settings.
    pub(crate) fn plan(&self, options: RunOptions) -> Result<Plan> {
        let agent = options.agent.clone().unwrap_or_else(|| self.agent.clone());
        agent.check()?;
        Ok(Plan {
            name: options.given_name().unwrap_or("run").to_owned(),
            agent,
            player: options.player.clone().unwrap_or_else(|| self.player.clone()),
            tool_call_check: options.tool_call_check.clone().unwrap_or_else(|| self.tool_call_check.clone()),
            provider_tools: match options.provider_tools {
                Some(names) => ProviderTools::named(names)?,
                None => self.provider_tools.clone(),
            },
            limits: options.limits.over(&self.limits).check()?,
        })
    }

    /// One run's options with what the suite plants in every run.
    pub(crate) fn set_up(&self, options: RunOptions) -> Result<RunOptions> {
        match &self.setup {
            Some(setup) => Ok(options.upon(setup::made(&**setup)?, &self.fake_domain)),
            None => Ok(options),
        }
    }

    /// The provider itself, as the environment has it.
    pub(crate) fn provider(&self) -> Provider {
        Provider {
            key: self.environment.anthropic_api_key.clone(),
            base_url: self.environment.anthropic_base_url.clone(),
        }
    }

    /// The values that must not be seen in anything that this session stores, shows or lets into a sandbox.
    pub(crate) fn held(&self) -> Vec<String> {
        let services = self.player.secrets().into_iter().chain(self.tool_call_check.secrets());
        let proxies = self.environment.proxies();
        services.chain(self.provider().secrets()).chain(proxies.secrets().to_vec()).collect()
    }

    /// The command line's backend.
    pub(crate) fn set_backend(&mut self, backend: &str) -> Result<()> {
        self.backend = said_by("--backend", BackendChoice::parse(backend))?;
        Ok(())
    }

    /// The number of runs at once that a flag of the command line gives.
    pub(crate) fn set_parallel(&mut self, flag: &str, parallel: u32) -> Result<()> {
        self.parallel = said_by(flag, in_range(parallel))?;
        Ok(())
    }

    /// How long an attack may take where it does not say: each of its turns has its own limit, so this only ends a body that
    /// hangs.
    pub(crate) fn attack_timeout(&self) -> Duration {
        Duration::from_secs(3600)
    }
}

/// What is wrong, with the flag or variable that says it.
fn said_by<T>(what: &str, said: Result<T>) -> Result<T> {
    said.map_err(|error| error.map_detail(|detail| format!("{what}: {detail}")))
}

fn lease(length: Duration) -> Result<Lease> {
    Lease::new(length).ok_or_else(|| {
        let detail = format!("lease = {length:?}: give {:?} at least and a day at most", Lease::SHORTEST);
        Error::redroom("invalid_lease", detail)
    })
}

fn in_range(parallel: u32) -> Result<u32> {
    match parallel {
        1..=MAX_PARALLEL => Ok(parallel),
        _ => Err(Error::redroom(
            "invalid_parallel",
            format!("parallel = {parallel}: give a number from 1 to {MAX_PARALLEL}"),
        )),
    }
}

impl BackendChoice {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(BackendChoice::Auto),
            "docker" => Ok(BackendChoice::Docker),
            "jail" => Ok(BackendChoice::Jail),
            other => {
                let meant = nearest(other, ["auto", "docker", "jail"]).map(|word| format!("; did you mean {word:?}?"));
                let meant = meant.unwrap_or_default();
                let detail = format!("backend = {other:?}: write \"auto\", \"docker\" or \"jail\"{meant}");
                Err(Error::redroom("invalid_backend", detail))
            }
        }
    }
}

/// A domain as it is compared: lower case, no dot at its ends, at least two labels.
fn domain(text: &str) -> Result<String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels: Vec<&str> = name.split('.').collect();
    let numeric = labels.last().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if labels.len() >= 2 && name.len() <= 200 && labels.iter().all(|l| label(l)) && !numeric {
        Ok(name)
    } else {
        // No more of it than a name can have at one glance.
        let said: String = text.chars().take(64).collect();
        Err(Error::redroom(
            "invalid_fake_domain",
            format!("fake_domain = {said:?}: write a name such as \"redroom.test\""),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Shell;
    use crate::model::{ModelProxy, Script};

    #[test]
    fn domains_are_compared_in_one_form() {
        assert_eq!(domain("Example.TEST.").unwrap(), "example.test");
        for bad in ["", "test", "a..b", "-a.test", "a b.test", "10.0.0.1", "http://a.test", "*.a.test"] {
            assert_eq!(domain(bad).unwrap_err().code(), "invalid_fake_domain", "{bad}");
        }
        assert!(domain(&"x".repeat(100_000)).unwrap_err().detail().len() < 200);
    }

    #[test]
    fn parallel_outside_its_range_is_refused() {
        for parallel in [0, 246] {
            let joined = Settings::join(Environment::default(), Suite::new().parallel(parallel), ConfigFile::default());
            assert_eq!(joined.err().unwrap().code(), "invalid_parallel");
        }
    }

    #[test]
    fn what_is_wrong_in_the_environment_names_its_variable() {
        let wrong = |environment| Settings::of(environment, Suite::new()).err().unwrap();
        let error = wrong(Environment { parallel: Some(0), ..Environment::default() });
        assert!(error.detail().starts_with("REDROOM_PARALLEL: parallel = 0: give a number"), "{error}");
        let error = wrong(Environment { backend: Some("podman".to_owned()), ..Environment::default() });
        assert!(error.detail().starts_with("REDROOM_BACKEND: backend = \"podman\""), "{error}");
    }

    #[test]
    fn a_lease_outside_its_range_is_refused() {
        for length in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(24 * 3600 + 1)] {
            let joined = Settings::join(Environment::default(), Suite::new().lease(length), ConfigFile::default());
            assert_eq!(joined.err().unwrap().code(), "invalid_lease", "{length:?}");
        }
        let joined = Settings::join(Environment::default(), Suite::new(), ConfigFile::default()).unwrap();
        assert_eq!(joined.lease, Lease::default());
    }

    #[test]
    fn the_environment_is_stronger_than_code_and_code_than_the_file() {
        let file = "parallel = 3\ncatch_all = true\n";
        let environment = Environment { parallel: Some(7), ..Environment::default() };
        let settings = joined_in(environment, file, Suite::new().parallel(5));
        assert_eq!((settings.parallel, settings.catch_all), (7, true));
        let settings = joined(file, Suite::new().catch_all(false));
        assert_eq!((settings.parallel, settings.catch_all), (3, false));
    }

    /// `redroom.toml`, `Suite` and a run's own options, one over the other.
    fn joined(toml: &str, suite: Suite) -> Settings {
        joined_in(Environment::default(), toml, suite)
    }

    fn joined_in(environment: Environment, toml: &str, suite: Suite) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redroom.toml");
        std::fs::write(&path, toml).unwrap();
        let environment = Environment { config: Some(path), ..environment };
        let file = ConfigFile::find(&environment, None, None).unwrap();
        Settings::join(environment, suite, file).unwrap()
    }

    fn proxy(name: &str) -> ModelProxy {
        ModelProxy::new(format!("http://{name}/"))
    }

    fn shown(player: &Player) -> String {
        match player {
            Player::Model(_) => "model".to_owned(),
            Player::Proxy(proxy) => format!("{proxy:?}").split('"').nth(1).unwrap_or_default().to_owned(),
            Player::Provider => "provider".to_owned(),
            Player::Lacking(error) => error.detail().to_owned(),
        }
    }

    const FILE: &str = "allow_provider_tools = [\"file_tool\"]\n[model_proxy]\nbase_url = \"http://file/\"\n\
                        [tool_call_check]\nurl = \"http://file/\"\n";

    #[test]
    fn who_answers_is_said_by_the_run_else_the_suite_else_the_file_else_the_provider() {
        let run = |settings: &Settings, options: RunOptions| shown(&settings.plan(options).unwrap().player);
        let nothing = joined("", Suite::new());
        let file = joined(FILE, Suite::new());
        let suite = joined(FILE, Suite::new().model_proxy(proxy("suite")));
        let played = joined(FILE, Suite::new().model(Script::new()));
        let none = joined(FILE, Suite::new().no_model_proxy());
        let cases = [
            (&nothing, "provider"),
            (&file, "http://file/"),
            (&suite, "http://suite/"),
            (&played, "model"),
            (&none, "provider"),
        ];
        for (settings, own) in cases {
            assert_eq!(run(settings, RunOptions::new()), own);
            assert_eq!(run(settings, RunOptions::new().model_proxy(proxy("run"))), "http://run/");
            assert_eq!(run(settings, RunOptions::new().model(Script::new())), "model");
            assert_eq!(run(settings, RunOptions::new().no_model_proxy()), "provider");
            assert_eq!(run(settings, RunOptions::new().no_model()), "provider");
        }
    }

    #[test]
    fn the_guard_is_the_runs_else_the_suites_else_the_files_else_nobody() {
        let run =
            |settings: &Settings, options: RunOptions| format!("{:?}", settings.plan(options).unwrap().tool_call_check);
        let check = |name: &str| ToolCallCheck::url(format!("http://{name}/"));
        let nothing = joined("", Suite::new());
        let file = joined(FILE, Suite::new());
        let suite = joined(FILE, Suite::new().tool_call_check(check("suite")));
        let none = joined(FILE, Suite::new().tool_call_check(ToolCallCheck::none()));
        for (settings, own) in [(&nothing, "none"), (&file, "http://file/"), (&suite, "http://suite/"), (&none, "none")]
        {
            assert!(run(settings, RunOptions::new()).contains(own));
            assert!(run(settings, RunOptions::new().tool_call_check(check("run"))).contains("http://run/"));
            assert_eq!(run(settings, RunOptions::new().no_tool_call_check()), "none");
        }
    }

    #[test]
    fn what_the_provider_may_be_asked_is_the_runs_else_the_suites_else_the_files_else_nothing() {
        let run = |settings: &Settings, options: RunOptions| settings.plan(options).unwrap().provider_tools;
        let named = |name: &str| ProviderTools::named([name]).unwrap();
        assert_eq!(run(&joined("", Suite::new()), RunOptions::new()), ProviderTools::default());
        assert_eq!(run(&joined(FILE, Suite::new()), RunOptions::new()), named("file_tool"));
        let suite = joined(FILE, Suite::new().allow_provider_tools(["suite_tool"]));
        assert_eq!(run(&suite, RunOptions::new()), named("suite_tool"));
        assert_eq!(run(&suite, RunOptions::new().allow_provider_tools(["run_tool"])), named("run_tool"));
        assert_eq!(run(&suite, RunOptions::new().allow_provider_tools([""; 0])), ProviderTools::default());
        let error = suite.plan(RunOptions::new().allow_provider_tools(["no tool"])).err().unwrap();
        assert_eq!(error.code(), "invalid_provider_tool");
    }

    #[test]
    fn without_a_key_the_provider_is_no_access_and_what_needs_none_starts_all_the_same() {
        let open = |settings: &Settings, options: RunOptions| {
            let plan = settings.plan(options).unwrap();
            plan.player.open(&*plan.agent, &settings.client, &settings.provider()).map(drop)
        };
        let mut settings = joined("", Suite::new());
        let error = open(&settings, RunOptions::new()).unwrap_err();
        assert_eq!((error.by(), error.code()), (crate::By::ModelProxy, "missing_model_access"));
        assert!(open(&settings, RunOptions::new().agent(Shell::new())).is_ok());
        assert!(open(&settings, RunOptions::new().model(Script::new())).is_ok());
        settings.environment.anthropic_api_key = Some("sk-of-the-environment".to_owned());
        assert!(open(&settings, RunOptions::new()).is_ok());
        assert_eq!(settings.held(), ["sk-of-the-environment"]);
        settings.environment.anthropic_base_url = Some("https://gateway.example/?k=1".to_owned());
        assert_eq!(open(&settings, RunOptions::new()).unwrap_err().code(), "invalid_model_proxy");
    }

    #[test]
    fn what_a_gateway_lacks_is_missed_by_runs_that_would_ask_it_alone() {
        const FILE: &str = "[model_proxy]\nbase_url = \"http://h/\"\nheaders = { k = \"$REDROOM_TEST_UNSET\" }\n";
        let settings = joined(FILE, Suite::new());
        let open = |options: RunOptions| {
            let plan = settings.plan(options).unwrap();
            plan.player.open(&*plan.agent, &settings.client, &settings.provider()).map(drop)
        };
        let error = open(RunOptions::new()).unwrap_err();
        assert_eq!(error.code(), "invalid_config");
        assert!(error.detail().contains("$REDROOM_TEST_UNSET"), "{}", error.detail());
        for needs_none in [RunOptions::new().model(Script::new()), RunOptions::new().agent(Shell::new())] {
            open(needs_none).unwrap();
        }
    }

    #[test]
    fn no_backend_but_a_known_one_is_taken() {
        let joined = Settings::join(Environment::default(), Suite::new().backend("none"), ConfigFile::default());
        assert_eq!(joined.err().unwrap().code(), "invalid_backend");
    }
}
