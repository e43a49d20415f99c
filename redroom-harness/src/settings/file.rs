//! `redroom.toml`: the first one of several places that is there; unknown keys are refused with the nearest known one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::Environment;
use crate::agent::{Agent, ClaudeCode, Shell};
use crate::error::{Error, Result};
use crate::guard::{IntoToolCallCheck, ToolCallCheck};
use crate::limits::Limits;
use crate::model::ModelProxy;
use crate::nearest::nearest;

/// The most that a settings file may weigh, in bytes.
const SIZE_LIMIT: u64 = 1024 * 1024;

/// What a settings file says.
#[derive(Clone, Default)]
pub(crate) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) agent: Option<AgentTable>,
    pub(super) model_proxy: Option<ProxyTable>,
    pub(super) tool_call_check: Option<CheckTable>,
    pub(super) provider_tools: Option<Vec<String>>,
    pub(crate) parallel: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) fake_domain: Option<String>,
    pub(crate) catch_all: Option<bool>,
    pub(crate) backend: Option<String>,
    pub(crate) junit: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    agent: Option<AgentTable>,
    model_proxy: Option<ProxyTable>,
    tool_call_check: Option<CheckTable>,
    allow_provider_tools: Option<Vec<String>>,
    parallel: Option<u32>,
    limits: Option<LimitsTable>,
    fake_domain: Option<String>,
    catch_all: Option<bool>,
    backend: Option<String>,
    report: Option<ReportTable>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct ReportTable {
    junit: Option<PathBuf>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct AgentTable {
    name: String,
    version: Option<String>,
    model: Option<String>,
    max_turns: Option<u32>,
    max_budget_usd: Option<f64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct ProxyTable {
    base_url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    ca: Option<PathBuf>,
    silence: Option<u64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct CheckTable {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct LimitsTable {
    cpus: Option<f64>,
    memory: Option<String>,
    pids: Option<u32>,
    file_size: Option<String>,
    open_files: Option<u64>,
    turn_timeout: Option<u64>,
}

impl ConfigFile {
    /// Looks for the file at `REDROOM_CONFIG`, in the crate's folder as cargo names it at run
    /// time, in the current folder, and in the crate's folder when it was compiled.
    /// One that is not there or cannot be read means the next; a broken one is an error.
    pub(crate) fn find(environment: &Environment, compiled_in: Option<&Path>) -> Result<Self> {
        let named = environment.config.clone();
        let standing = [environment.manifest_dir.clone(), Some(PathBuf::from(".")), compiled_in.map(Path::to_owned)];
        let places = named.into_iter().chain(standing.into_iter().flatten().map(|folder| folder.join("redroom.toml")));
        for path in places {
            let readable = std::fs::metadata(&path).is_ok_and(|facts| facts.is_file() && facts.len() <= SIZE_LIMIT);
            let text = readable.then(|| std::fs::read_to_string(&path));
            match text {
                Some(Ok(text)) => return Self::parse(&path, &text),
                Some(Err(error)) => tracing::warn!(path = %path.display(), %error, "a settings file cannot be read"),
                None => {}
            }
        }
        Ok(ConfigFile::default())
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self> {
        let root: Root = toml::from_str(text).map_err(|error| broken(path, text, &error))?;
        let limits = root.limits.map(LimitsTable::into_limits).unwrap_or_default();
        Ok(ConfigFile {
            path: path.to_owned(),
            agent: root.agent,
            model_proxy: root.model_proxy,
            tool_call_check: root.tool_call_check,
            provider_tools: root.allow_provider_tools,
            parallel: root.parallel,
            limits,
            fake_domain: root.fake_domain,
            catch_all: root.catch_all,
            backend: root.backend,
            // Beside the file, wherever the tests are started.
            junit: root.report.and_then(|report| report.junit).map(|junit| beside(path, &junit)),
        })
    }

    pub(crate) fn agent(&self) -> Result<Option<Arc<dyn Agent>>> {
        let Some(table) = &self.agent else { return Ok(None) };
        match table.name.as_str() {
            "claude-code" => {
                let mut agent = ClaudeCode::new(table.version.as_deref().unwrap_or(super::CLAUDE_CODE_VERSION));
                if let Some(model) = &table.model {
                    agent = agent.model(model);
                }
                if let Some(turns) = table.max_turns {
                    agent = agent.max_turns(turns);
                }
                if let Some(budget) = table.max_budget_usd {
                    agent = agent.max_budget_usd(budget);
                }
                Ok(Some(Arc::new(agent)))
            }
            "shell" => Ok(Some(Arc::new(Shell::new()))),
            other => Err(self.wrong(&format!("agent.name = {other:?}: write \"claude-code\" or \"shell\""))),
        }
    }

    pub(crate) fn model_proxy(&self) -> Result<Option<ModelProxy>> {
        let Some(table) = &self.model_proxy else { return Ok(None) };
        let mut proxy = ModelProxy::new(&table.base_url);
        for (name, value) in &table.headers {
            proxy = proxy.header(name, self.expand(name, value)?);
        }
        if let Some(ca) = &table.ca {
            // As a path in a file is meant: from where the file lies.
            let file = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
            proxy = proxy.ca(file.with_file_name("").join(ca));
        }
        if let Some(seconds) = table.silence {
            proxy = proxy.silence(Duration::from_secs(seconds));
        }
        Ok(Some(proxy))
    }

    pub(crate) fn tool_call_check(&self) -> Result<Option<ToolCallCheck>> {
        let Some(table) = &self.tool_call_check else { return Ok(None) };
        let mut check = ToolCallCheck::url(&table.url);
        for (name, value) in &table.headers {
            check = check.header(name, self.expand(name, value)?);
        }
        Ok(Some(check.into_tool_call_check()))
    }

    /// `$NAME` as a whole value is the environment's variable: a key has no place in a file that is committed.
    fn expand(&self, header: &str, value: &str) -> Result<String> {
        let Some(name) = value.strip_prefix('$') else { return Ok(value.to_owned()) };
        std::env::var(name).map_err(|_| {
            self.wrong(&format!(
                "the header {header} takes its value from ${name}, which is not set in the environment"
            ))
        })
    }

    fn wrong(&self, why: &str) -> Error {
        Error::redroom("invalid_config", format!("{}: {why}", self.path.display()))
    }
}

impl LimitsTable {
    fn into_limits(self) -> Limits {
        let mut limits = Limits::new();
        if let Some(cpus) = self.cpus {
            limits = limits.cpus(cpus);
        }
        if let Some(memory) = self.memory {
            limits = limits.memory(memory);
        }
        if let Some(pids) = self.pids {
            limits = limits.pids(pids);
        }
        if let Some(size) = self.file_size {
            limits = limits.file_size(size);
        }
        if let Some(files) = self.open_files {
            limits = limits.open_files(files);
        }
        if let Some(seconds) = self.turn_timeout {
            limits = limits.turn_timeout(Duration::from_secs(seconds));
        }
        limits
    }
}

fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new(".")).join(path)
}

/// A broken file: where, what, and the nearest known key where one is unknown.
fn broken(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    // The parser's own message quotes the line: a key that somebody wrote into it would be in a log. Place and reason do.
    let message = error.message();
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or_else(String::new, |before| format!(":{}", before.matches('\n').count() + 1));
    let place = format!("{}{line}", path.display());
    let key = error.span().and_then(|span| key_at(text, span.start));
    let mut detail = format!("{place}: {}", plain(message, key));
    if let Some((unknown, known)) = unknown_field(message)
        && let Some(nearest) = nearest(&unknown, known.iter().map(String::as_str))
    {
        detail = format!("{place}: unknown key `{unknown}`; did you mean `{nearest}`?");
    }
    Error::redroom("invalid_config", detail)
}

/// The key of the line that `at` lies in.
fn key_at(text: &str, at: usize) -> Option<&str> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let key = text[start..].lines().next()?.split_once('=')?.0.trim();
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.len() <= 64 && key.chars().all(bare)).then_some(key)
}

/// The parser's message for people who know TOML and not Rust; without the value, which may be a key.
fn plain(message: &str, key: Option<&str>) -> String {
    if let Some(missing) = message.strip_prefix("missing field ") {
        return format!("{missing} is missing");
    }
    let wrong = message.strip_prefix("invalid ").and_then(|wrong| wrong.rsplit_once(", expected "));
    let Some((found, expected)) = wrong else { return message.to_owned() };
    let kind = found.split(['`', '"']).next().unwrap_or(found).split_once(": ").map_or(found, |(_, kind)| kind.trim());
    let found = match kind {
        "string" => "text",
        "integer" => "a whole number",
        "floating point" => "a number with a fraction",
        "boolean" => "true or false",
        "sequence" => "a list",
        "map" => "a table",
        _ => "something else",
    };
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, not below 0",
        "f64" => "a number",
        "a string" => "text in quotes",
        "a boolean" => "true or false",
        "a map" => "a table",
        other => other,
    };
    let key = key.map_or_else(|| "this".to_owned(), |key| format!("`{key}`"));
    let but = if expected.starts_with(found) { "it is out of range".to_owned() } else { format!("it is {found}") };
    format!("{key} must be {expected}, and {but}")
}

/// The names in serde's message on an unknown field.
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2).map(str::to_owned);
    let unknown = names.next()?;
    Some((unknown, names.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile> {
        ConfigFile::parse(Path::new("redroom.toml"), text)
    }

    #[test]
    fn every_key_is_read() {
        let file = parse(
            "parallel = 2\nbackend = \"docker\"\nfake_domain = \"corp.test\"\ncatch_all = true\n\
             [agent]\nname = \"claude-code\"\nversion = \"2.1.316\"\nmodel = \"haiku\"\n\
             [limits]\nmemory = \"1g\"\nturn_timeout = 60\n\
             [model_proxy]\nbase_url = \"https://gw.example\"\n[tool_call_check]\nurl = \"http://localhost:1\"\n\
             [report]\njunit = \"target/junit.xml\"\n",
        )
        .unwrap();
        assert_eq!(file.parallel, Some(2));
        assert_eq!(file.junit, Some(PathBuf::from("target/junit.xml")));
        assert_eq!(file.limits, Limits::new().memory("1g").turn_timeout(Duration::from_secs(60)));
        let agent = file.agent().unwrap().unwrap();
        assert_eq!((agent.name(), agent.version(), agent.model()), ("claude-code", "2.1.316", Some("haiku")));
        assert!(file.model_proxy().unwrap().is_some() && file.tool_call_check().unwrap().is_some());
    }

    #[test]
    fn the_file_that_the_documentation_shows_is_read_and_holds_every_key() {
        let doc = include_str!("../suite.rs").split_once("/// ```toml").unwrap().1.split_once("/// ```").unwrap().0;
        let text = doc.replace("///", "");
        let file = parse(&text).unwrap();
        assert_eq!((file.parallel, file.limits == Limits::new()), (Some(4), false));
        for known in ["catch_all", "max_budget_usd", "file_size", "open_files", "turn_timeout", "base_url", "url"] {
            assert!(text.contains(&format!("\n {known} = ")), "{known}");
        }
    }

    #[test]
    fn the_files_that_the_page_about_gateways_shows_are_read() {
        let page = include_str!("../../../docs/gateways.md");
        let files: Vec<&str> =
            page.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
        assert_eq!(files.len(), 2);
        for text in files {
            // What the environment holds is not the page's to say.
            let mut file = parse(&text.replace("\"$", "\"")).unwrap();
            file.path = std::path::absolute("place/redroom.toml").unwrap();
            let proxy = file.model_proxy().unwrap().unwrap();
            assert!(
                !text.contains("ca = ") || format!("{proxy:?}").contains("place/certificates/team.pem"),
                "{proxy:?}"
            );
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest_known_one() {
        let error = parse("paralel = 2\n").err().unwrap();
        assert_eq!(error.code(), "invalid_config");
        assert!(error.detail().contains("`paralel`") && error.detail().contains("`parallel`"), "{error}");
        let error = parse("nothing_like_it = 2\n").err().unwrap();
        assert!(error.detail().contains("`nothing_like_it`"), "{error}");
        let error = parse("[limits]\nmemroy = \"1g\"\n").err().unwrap();
        assert!(error.detail().contains("`memory`"), "{error}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_told_with_its_line() {
        for (text, told) in [
            (
                "catch_all = true\n\nparallel = \"x\"\n",
                "redroom.toml:3: `parallel` must be a whole number from 0 to 4294967295, and it is text",
            ),
            ("agent = \"shell\"\n", "redroom.toml:1: `agent` must be a table, and it is text"),
            (
                "parallel = -1\n",
                "redroom.toml:1: `parallel` must be a whole number from 0 to 4294967295, and it is out of range",
            ),
            ("[limits]\ncpus = \"2\"\n", "redroom.toml:2: `cpus` must be a number, and it is text"),
            ("[limits]\nmemory = 2\n", "redroom.toml:2: `memory` must be text in quotes, and it is a whole number"),
            ("catch_all = \"yes\"\n", "redroom.toml:1: `catch_all` must be true or false, and it is text"),
            ("[agent]\nmodel = \"sonnet\"\n", "redroom.toml:1: `name` is missing"),
            ("[limits]\nmemroy = \"1g\"\n", "redroom.toml:2: unknown key `memroy`"),
        ] {
            let error = parse(text).err().unwrap();
            assert!(error.detail().starts_with(told), "{error}");
        }
    }

    #[test]
    fn a_broken_file_is_an_error_that_does_not_quote_it() {
        for headers in ["{ x-api-key = sk-4711 }", "{ x-api-key = 4711 }", "'sk-4711, expected 4711'", "['sk-4711']"] {
            let text = format!("[model_proxy]\nbase_url = 'http://localhost'\nheaders = {headers}\n");
            let error = parse(&text).err().unwrap();
            assert_eq!(error.code(), "invalid_config");
            assert!(!error.to_string().contains("4711"), "{error}");
        }
    }

    #[test]
    fn the_first_file_that_is_there_counts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("redroom.toml"), "parallel = 9\n").unwrap();
        let environment = Environment {
            config: Some(folder.path().join("absent.toml")),
            manifest_dir: Some(folder.path().to_owned()),
            ..Environment::default()
        };
        assert_eq!(ConfigFile::find(&environment, None).unwrap().parallel, Some(9));
    }
}
