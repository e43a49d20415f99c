//! Settings, joined once at the top: environment over code over `redroom.toml` over defaults. Nothing below reads any of
//! them again.

mod environment;
mod file;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Agent, ClaudeCode};
use crate::error::{Error, Result};
use crate::guard::ToolCallCheck;
use crate::limits::{CheckedLimits, Limits};
use crate::model::Player;
use crate::options::RunOptions;
use crate::outbound::Client;
use crate::slot::MAX_PARALLEL;
use crate::suite::Suite;

pub(crate) use environment::Environment;
use file::ConfigFile;

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
    pub(crate) parallel: u32,
    pub(crate) limits: Limits,
    pub(crate) fake_domain: String,
    pub(crate) catch_all: bool,
    pub(crate) backend: BackendChoice,
    /// The file of the JUnit report.
    pub(crate) junit: Option<PathBuf>,
    pub(crate) ignored_without_backend: bool,
    pub(crate) client: Client,
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
    pub(crate) limits: CheckedLimits,
}

impl Settings {
    /// Reads environment and file, and joins them with what the code says.
    pub(crate) fn load(suite: Suite) -> Result<Self> {
        let environment = Environment::read()?;
        let file = ConfigFile::find(&environment, suite.manifest_dir.as_deref())?;
        Self::join(environment, suite, file)
    }

    fn join(environment: Environment, suite: Suite, file: ConfigFile) -> Result<Self> {
        let parallel = in_range(environment.parallel.or(suite.parallel).or(file.parallel).unwrap_or(4))?;
        let backend = environment.backend.clone().or(suite.backend).or(file.backend.clone());
        let fake_domain = suite.fake_domain.or(file.fake_domain.clone()).unwrap_or_else(|| DEFAULT_DOMAIN.to_owned());
        let limits = suite.limits.over(&file.limits);
        limits.check()?;
        Ok(Settings {
            agent: suite.agent.or(file.agent()?).unwrap_or_else(|| Arc::new(ClaudeCode::new(CLAUDE_CODE_VERSION))),
            player: match suite.player {
                Some(player) => player,
                None => file.model_proxy()?.map_or(Player::Provider, Player::Proxy),
            },
            tool_call_check: match suite.tool_call_check {
                Some(check) => check,
                None => file.tool_call_check()?.unwrap_or_else(ToolCallCheck::none),
            },
            parallel,
            limits,
            fake_domain: domain(&fake_domain)?,
            catch_all: suite.catch_all.or(file.catch_all).unwrap_or(false),
            backend: match BackendChoice::parse(backend.as_deref().unwrap_or("auto"))? {
                // What must be there is not quietly replaced.
                BackendChoice::Auto if environment.requires("docker") => BackendChoice::Docker,
                choice => choice,
            },
            junit: environment.junit.clone().or(file.junit.clone()),
            ignored_without_backend: suite.ignored_without_backend,
            client: Client::new()?,
            environment,
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
            limits: options.limits.over(&self.limits).check()?,
        })
    }

    /// The values that must not be seen in anything that this session stores, shows or lets into a sandbox.
    pub(crate) fn held(&self) -> Vec<String> {
        let services = self.player.secrets().into_iter().chain(self.tool_call_check.secrets());
        services.chain(self.environment.anthropic_api_key.clone()).collect()
    }

    /// The command line's backend.
    pub(crate) fn set_backend(&mut self, backend: &str) -> Result<()> {
        self.backend = BackendChoice::parse(backend)?;
        Ok(())
    }

    /// The command line's number of runs at once.
    pub(crate) fn set_parallel(&mut self, parallel: usize) -> Result<()> {
        self.parallel = in_range(u32::try_from(parallel).unwrap_or(u32::MAX))?;
        Ok(())
    }

    /// How long an attack may take where it does not say: each of its turns has its own limit, so this only ends a body that
    /// hangs.
    pub(crate) fn attack_timeout(&self) -> Duration {
        Duration::from_secs(3600)
    }
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
            other => Err(Error::redroom(
                "invalid_backend",
                format!("backend = {other:?}: write \"auto\", \"docker\" or \"jail\""),
            )),
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
        Err(Error::redroom(
            "invalid_fake_domain",
            format!("fake_domain = {text:?}: write a name such as \"redroom.test\""),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_compared_in_one_form() {
        assert_eq!(domain("Example.TEST.").unwrap(), "example.test");
        for bad in ["", "test", "a..b", "-a.test", "a b.test", "10.0.0.1", "http://a.test", "*.a.test"] {
            assert_eq!(domain(bad).unwrap_err().code(), "invalid_fake_domain", "{bad}");
        }
    }

    #[test]
    fn parallel_outside_its_range_is_refused() {
        for parallel in [0, 246] {
            let joined = Settings::join(Environment::default(), Suite::new().parallel(parallel), ConfigFile::default());
            assert_eq!(joined.err().unwrap().code(), "invalid_parallel");
        }
    }

    #[test]
    fn the_environment_is_stronger_than_code_and_code_than_the_file() {
        let file = ConfigFile { parallel: Some(3), catch_all: Some(true), ..ConfigFile::default() };
        let environment = Environment { parallel: Some(7), ..Environment::default() };
        let settings = Settings::join(environment, Suite::new().parallel(5), file.clone()).unwrap();
        assert_eq!((settings.parallel, settings.catch_all), (7, true));
        let settings = Settings::join(Environment::default(), Suite::new().catch_all(false), file).unwrap();
        assert_eq!((settings.parallel, settings.catch_all), (3, false));
    }

    #[test]
    fn no_backend_but_a_known_one_is_taken() {
        let joined = Settings::join(Environment::default(), Suite::new().backend("none"), ConfigFile::default());
        assert_eq!(joined.err().unwrap().code(), "invalid_backend");
    }
}
