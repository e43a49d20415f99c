//! `redroom.toml`: the first one of several places that is there, and the profile of it that was chosen.
//!
//! Every value is checked where it stands, of profiles that nobody chose as well; what the environment has to fill in, only
//! where it is used.

mod reader;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Environment;
use super::keys::BROKEN;
use crate::agent::{Agent, ClaudeCode, Shell};
use crate::error::{Error, Result};
use crate::guard::{ToolCallCheck, UrlCheck};
use crate::limits::Limits;
use crate::model::{ModelProxy, ProviderTools, authorities};
use crate::nearest::nearest;
use crate::visible::visible_line;
use reader::{Placed, Source, Table};

/// The most that a settings file may weigh, in bytes.
const SIZE_LIMIT: u64 = 1024 * 1024;

/// What a settings file says, with the chosen profile laid over.
#[derive(Clone, Default)]
pub(crate) struct ConfigFile {
    pub(super) agent: Option<Arc<dyn Agent>>,
    model_proxy: Option<Proxy>,
    tool_call_check: Option<Check>,
    pub(super) provider_tools: Option<Vec<String>>,
    pub(super) parallel: Option<u32>,
    pub(super) limits: Limits,
    pub(super) fake_domain: Option<String>,
    pub(super) catch_all: Option<bool>,
    pub(super) backend: Option<String>,
    pub(super) junit: Option<PathBuf>,
    /// What is to be said of a file that was named and cannot be read: another counts in its place, or none.
    pub(super) unread: Option<String>,
}

/// A service that model requests go to, as far as the file says it.
#[derive(Clone)]
struct Proxy {
    proxy: ModelProxy,
    headers: Vec<(String, Placed<String>)>,
    ca: Option<Placed<PathBuf>>,
}

/// A guard, as far as the file says it.
#[derive(Clone)]
struct Check {
    check: UrlCheck,
    headers: Vec<(String, Placed<String>)>,
}

/// A profile that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    /// What asked for it.
    pub(crate) chosen_by: &'static str,
}

impl ConfigFile {
    /// Looks for the file at `REDROOM_CONFIG`, in the crate's folder as cargo names it at run
    /// time, in the current folder, and in the crate's folder when it was compiled.
    /// One that is not there or cannot be read means the next; a broken one is an error.
    pub(crate) fn find(
        environment: &Environment,
        compiled_in: Option<&Path>,
        profile: Option<&Profile>,
    ) -> Result<Self> {
        let named = environment.config.clone();
        let standing = [environment.manifest_dir.clone(), Some(PathBuf::from(".")), compiled_in.map(Path::to_owned)];
        let places = named.into_iter().chain(standing.into_iter().flatten().map(|folder| folder.join("redroom.toml")));
        let mut tried: Vec<String> = Vec::new();
        let mut unread = None;
        for path in places {
            match read(&path) {
                Ok(bytes) => return Ok(ConfigFile { unread, ..Self::parse(&path, &text(&path, bytes)?, profile)? }),
                Err(error) if error.kind() == io::ErrorKind::NotFound && environment.config.as_ref() != Some(&path) => {
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a settings file cannot be read");
                    if environment.config.as_ref() == Some(&path) {
                        unread = Some(format!(
                            "REDROOM_CONFIG names {}, which cannot be read ({error}): the settings are those of the crate's \
                             redroom.toml, if there is one; correct the path, or take the variable away",
                            path.display()
                        ));
                    }
                }
            }
            let told = visible_line(&path.to_string_lossy()).into_owned();
            if !tried.contains(&told) {
                tried.push(told);
            }
        }
        match profile {
            None => Ok(ConfigFile { unread, ..ConfigFile::default() }),
            Some(profile) => Err(profile.unknown(&format!("there is no settings file at {}", tried.join(" or ")))),
        }
    }

    pub(crate) fn parse(path: &Path, text: &str, chosen: Option<&Profile>) -> Result<Self> {
        let mut root = Source { path, text }.read()?;
        let profiles = root.profiles()?;
        let own = Self::layer(root, path)?;
        let (mut names, mut laid_over) = (Vec::new(), None);
        for (name, table) in profiles {
            let layer = Self::layer(table, path)?;
            if chosen.is_some_and(|chosen| chosen.name == name) {
                laid_over = Some(layer);
            }
            names.push(name);
        }
        match (chosen, laid_over) {
            (_, Some(layer)) => Ok(layer.over(own)),
            (None, None) => Ok(own),
            (Some(chosen), None) => Err(chosen.not_in(path, &names)),
        }
    }

    /// What one table says that may hold all the keys: the file's own, or a profile's.
    fn layer(mut table: Table<'_>, path: &Path) -> Result<Self> {
        let fake_domain = table.text("fake_domain")?;
        let domain = |text: Placed<String>| super::domain(&text.value).map_err(|error| text.place.explain(error));
        let layer = ConfigFile {
            parallel: table.whole("parallel")?.and_then(|parallel| u32::try_from(parallel).ok()),
            backend: table.text("backend")?.map(|backend| backend.value),
            fake_domain: fake_domain.map(domain).transpose()?,
            catch_all: table.truth("catch_all")?,
            provider_tools: table.texts("allow_provider_tools")?.map(provider_tools).transpose()?,
            agent: table.table("agent")?.map(agent).transpose()?,
            limits: table.table("limits")?.map(limits).transpose()?.unwrap_or_default(),
            model_proxy: table.table("model_proxy")?.map(|table| Proxy::read(table, path)).transpose()?,
            tool_call_check: table.table("tool_call_check")?.map(Check::read).transpose()?,
            junit: table.table("report")?.map(|table| junit(table, path)).transpose()?.flatten(),
            unread: None,
        };
        table.end();
        Ok(layer)
    }

    /// This, and where it says nothing, what `weaker` says. What names an agent or a service is taken or left as a whole: a
    /// header that was meant for one service has no business at another.
    fn over(self, weaker: ConfigFile) -> ConfigFile {
        ConfigFile {
            agent: self.agent.or(weaker.agent),
            model_proxy: self.model_proxy.or(weaker.model_proxy),
            tool_call_check: self.tool_call_check.or(weaker.tool_call_check),
            provider_tools: self.provider_tools.or(weaker.provider_tools),
            parallel: self.parallel.or(weaker.parallel),
            limits: self.limits.over(&weaker.limits),
            fake_domain: self.fake_domain.or(weaker.fake_domain),
            catch_all: self.catch_all.or(weaker.catch_all),
            backend: self.backend.or(weaker.backend),
            junit: self.junit.or(weaker.junit),
            unread: None,
        }
    }

    /// The service that model requests go to, with what the environment has to say.
    pub(super) fn model_proxy(&self) -> Result<Option<ModelProxy>> {
        let Some(Proxy { proxy, headers, ca }) = &self.model_proxy else { return Ok(None) };
        let mut proxy = proxy.clone();
        for (name, value) in headers {
            proxy = proxy.header(name, expanded(value)?);
            proxy.check().map_err(|error| value.place.explain(error))?;
        }
        if let Some(ca) = ca {
            authorities(&ca.value).map_err(|error| ca.place.explain(error))?;
            proxy = proxy.ca(&ca.value);
        }
        Ok(Some(proxy))
    }

    /// The guard, with what the environment has to say.
    pub(super) fn tool_call_check(&self) -> Result<Option<ToolCallCheck>> {
        let Some(Check { check, headers }) = &self.tool_call_check else { return Ok(None) };
        let mut check = check.clone();
        for (name, value) in headers {
            check = check.header(name, expanded(value)?);
            check.check().map_err(|error| value.place.explain(error))?;
        }
        Ok(Some(check.into()))
    }
}

impl Profile {
    fn not_in(&self, file: &Path, known: &[String]) -> Error {
        let hint = match nearest(&self.name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if known.is_empty() => "it has none; write its settings below [profile.NAME]".to_owned(),
            None => format!("there are {}", known.join(", ")),
        };
        self.unknown(&format!("{} has no such profile; {hint}", visible_line(&file.to_string_lossy())))
    }

    fn unknown(&self, why: &str) -> Error {
        let name: String = visible_line(&self.name).chars().take(64).collect();
        Error::redroom("unknown_profile", format!("{} asks for the profile {name:?}: {why}", self.chosen_by))
    }
}

/// A file, if it is one; a pipe or a device is not waited for.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String> {
    let broken = |why: &str| {
        let detail = format!("{}{why}", visible_line(&path.to_string_lossy()));
        Error::redroom(BROKEN, detail)
    };
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(broken(&format!(": more than {SIZE_LIMIT} bytes are no settings")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        broken(&format!(":{line}: this is no text in UTF-8"))
    })
}

fn provider_tools(names: Vec<Placed<String>>) -> Result<Vec<String>> {
    let check = |name: Placed<String>| match ProviderTools::named([&name.value]) {
        Ok(_) => Ok(name.value),
        Err(error) => Err(name.place.explain(error)),
    };
    names.into_iter().map(check).collect()
}

fn agent(mut table: Table<'_>) -> Result<Arc<dyn Agent>> {
    let name = table.needed_text("name")?;
    let (version, model) = (table.text("version")?, table.text("model")?);
    let (max_turns, max_budget_usd) = (table.whole("max_turns")?, table.number("max_budget_usd")?);
    table.end();
    if name.value == "shell" {
        return match (version, model, max_turns, max_budget_usd) {
            (None, None, None, None) => Ok(Arc::new(Shell::new())),
            _ => Err(name
                .place
                .wrong(BROKEN, "is \"shell\", to which the table's other keys mean nothing; take them out")),
        };
    }
    let mut agent = ClaudeCode::new(super::CLAUDE_CODE_VERSION);
    if let Some(Placed { value, place }) = version {
        agent = ClaudeCode::new(value);
        agent.check().map_err(|error| place.explain(error))?;
    }
    if let Some(Placed { value, place }) = model {
        agent = agent.model(value);
        agent.check().map_err(|error| place.explain(error))?;
    }
    if let Some(turns) = max_turns {
        agent = agent.max_turns(u32::try_from(turns).unwrap_or(u32::MAX));
    }
    if let Some(budget) = max_budget_usd {
        agent = agent.max_budget_usd(budget);
    }
    Ok(Arc::new(agent))
}

fn limits(mut table: Table<'_>) -> Result<Limits> {
    let mut limits = Limits::new();
    if let Some(cpus) = table.number("cpus")? {
        limits = limits.cpus(cpus);
    }
    if let Some(Placed { value, place }) = table.text("memory")? {
        limits = limits.memory(value);
        limits.check().map_err(|error| place.explain(error))?;
    }
    if let Some(pids) = table.whole("pids")? {
        limits = limits.pids(u32::try_from(pids).unwrap_or(u32::MAX));
    }
    if let Some(Placed { value, place }) = table.text("file_size")? {
        limits = limits.file_size(value);
        limits.check().map_err(|error| place.explain(error))?;
    }
    if let Some(files) = table.whole("open_files")? {
        limits = limits.open_files(files);
    }
    if let Some(seconds) = table.whole("turn_timeout")? {
        limits = limits.turn_timeout(Duration::from_secs(seconds));
    }
    table.end();
    Ok(limits)
}

fn junit(mut table: Table<'_>, file: &Path) -> Result<Option<PathBuf>> {
    let junit = table.text("junit")?.map(|junit| beside(file, junit)).transpose()?;
    table.end();
    Ok(junit.map(|junit| junit.value))
}

impl Proxy {
    fn read(mut table: Table<'_>, file: &Path) -> Result<Self> {
        let Placed { value: base_url, place } = table.needed_text("base_url")?;
        let headers = table.headers("headers")?;
        let ca = table.text("ca")?.map(|ca| beside(file, ca)).transpose()?;
        let silence = table.whole("silence")?;
        table.end();
        let mut proxy = ModelProxy::new(base_url);
        proxy.check().map_err(|error| place.explain(error))?;
        for (name, value) in &headers {
            proxy.clone().header(name, known(value)).check().map_err(|error| value.place.explain(error))?;
        }
        if let Some(seconds) = silence {
            proxy = proxy.silence(Duration::from_secs(seconds));
        }
        Ok(Proxy { proxy, headers, ca })
    }
}

impl Check {
    fn read(mut table: Table<'_>) -> Result<Self> {
        let Placed { value: url, place } = table.needed_text("url")?;
        let headers = table.headers("headers")?;
        table.end();
        let check = ToolCallCheck::url(url);
        check.check().map_err(|error| place.explain(error))?;
        for (name, value) in &headers {
            check.clone().header(name, known(value)).check().map_err(|error| value.place.explain(error))?;
        }
        Ok(Check { check, headers })
    }
}

/// What is known of a value before the environment is asked.
fn known(value: &Placed<String>) -> &str {
    if value.value.starts_with('$') { "" } else { &value.value }
}

/// `$NAME` as a whole value is the environment's variable: a key has no place in a file that is committed.
fn expanded(value: &Placed<String>) -> Result<String> {
    let Some(name) = value.value.strip_prefix('$') else { return Ok(value.value.clone()) };
    std::env::var(name).map_err(|_| {
        let name: String = visible_line(name).chars().take(64).collect();
        value.place.wrong(BROKEN, &format!("is ${name}, which is not set in the environment; set it, or name another"))
    })
}

/// As a path in a file is meant: from where the file lies, wherever the tests are started.
fn beside(file: &Path, path: Placed<String>) -> Result<Placed<PathBuf>> {
    if path.value.is_empty() {
        return Err(path.place.wrong(BROKEN, "is empty; name a file"));
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let value = file.parent().unwrap_or(Path::new(".")).join(path.value);
    Ok(Placed { value, place: path.place })
}
