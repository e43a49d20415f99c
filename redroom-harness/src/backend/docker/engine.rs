//! The connection to a Docker engine: found, checked, and asked with a deadline round every call.
//!
//! Failures are told apart by their HTTP status only; texts differ from engine to engine.

use std::env;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error as BollardError;
use bollard::models::SystemVersion;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::elf::Machine;
use super::known::Known;
use crate::error::{Call, Error, Result, chain};

/// When a call is given up: an engine that is alive answers in a fraction of a second, a busy one within seconds.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(120);
/// When the build of an image is given up.
pub(crate) const BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);
/// When an engine counts as absent.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

const OLDEST_ENGINE: u32 = 28;
const OLDEST_API: (u32, u32) = (1, 48);
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// An engine that answers and is fit for sandboxes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) docker: bollard::Docker,
    facts: EngineFacts,
}

/// What the engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineFacts {
    /// Such as `28.5.2`.
    pub(crate) version: String,
    /// What it runs on.
    pub(crate) machine: Machine,
    /// How many processors a container can have.
    pub(crate) processors: u32,
}

impl Engine {
    /// Connects as `DOCKER_HOST` says, else to the usual socket.
    pub(crate) async fn connect(known: &Known) -> Result<Self> {
        const FACTS: &str = "facts";
        let docker = bollard::Docker::connect_with_defaults().map_err(|error| unavailable(&chain(&error)))?;
        // Own deadlines are shorter where they should be; the client's would cut builds.
        let docker = docker.with_timeout(BUILD_DEADLINE);
        if let Some(facts) = known.get(FACTS).and_then(|text| serde_json::from_str(&text).ok()) {
            answer(docker.ping()).await?;
            return Ok(Engine { docker, facts });
        }
        let (version, info) = answer(async { tokio::try_join!(docker.version(), docker.info()) }).await?;
        let processors = info.ncpu.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0).unwrap_or(1);
        let (version, machine) = fit(&version)?;
        let facts = EngineFacts { version, machine, processors };
        if let Ok(text) = serde_json::to_string(&facts) {
            known.put(FACTS, &text);
        }
        Ok(Engine { docker, facts })
    }

    pub(crate) fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    /// Makes one call; `what` completes "cannot …".
    pub(crate) async fn call<T>(&self, what: &str, call: impl Future<Output = Result<T, BollardError>>) -> Result<T> {
        within(CALL_DEADLINE, what, async { call.await.map_err(|error| failed(what, error)) }).await
    }
}

/// The answer to a first question.
async fn answer<T>(asking: impl Future<Output = Result<T, BollardError>>) -> Result<T> {
    match timeout(CONNECT_DEADLINE, asking).await {
        Ok(answer) => answer.map_err(|error| unavailable(&chain(&error))),
        Err(_) => Err(unavailable(&format!("no answer within {} s", CONNECT_DEADLINE.as_secs()))),
    }
}

/// The result of `work`, or `docker_timeout` past `deadline`.
pub(crate) async fn within<T>(deadline: Duration, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(deadline, work).await.unwrap_or_else(|_| {
        let seconds = deadline.as_secs();
        let detail = format!("cannot {what}: the Docker engine has not answered within {seconds} s; is it overloaded?");
        Err(Error::backend("docker_timeout", detail))
    })
}

/// A call that failed, as our error. Its status, if the engine gave one, is in [`Error::call`].
pub(crate) fn failed(what: &str, error: BollardError) -> Error {
    match error {
        BollardError::DockerResponseServerError { status_code, message } => {
            let call = Call { status: Some(status_code), ..Call::default() };
            Error::backend("docker_refused", format!("cannot {what}: the Docker engine says: {message}"))
                .with_call(call)
        }
        BollardError::DockerStreamError { error } => {
            Error::backend("docker_refused", format!("cannot {what}: the Docker engine says: {error}"))
        }
        BollardError::RequestTimeoutError => {
            Error::backend("docker_timeout", format!("cannot {what}: the Docker engine does not answer"))
        }
        error => {
            let detail = format!("cannot {what}: the connection to the Docker engine failed: {}", chain(&error));
            Error::backend("docker_lost", detail)
        }
    }
}

/// The HTTP status that a call failed with.
pub(crate) fn status(error: &Error) -> Option<u16> {
    error.call().and_then(|call| call.status)
}

/// `None` in place of a failure with one of these statuses.
pub(crate) fn unless<T>(statuses: &[u16], result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if status(&error).is_some_and(|status| statuses.contains(&status)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Version and machine of an engine that is new enough and runs Linux.
fn fit(version: &SystemVersion) -> Result<(String, Machine)> {
    let unfit = |why: String| Err(Error::backend("docker_unavailable", why));
    let engine = version.version.as_deref().unwrap_or("unknown");
    let api = version.api_version.as_deref().unwrap_or("unknown");
    let major = engine.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let parsed = api.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if major.is_none_or(|major| major < OLDEST_ENGINE) || parsed.is_none_or(|api: (u32, u32)| api < OLDEST_API) {
        let (major, minor) = OLDEST_API;
        return unfit(format!(
            "the engine has version {engine} and API {api}; redroom needs Docker Engine {OLDEST_ENGINE} or newer \
             (API {major}.{minor}): update it, or choose the jail backend"
        ));
    }
    let os = version.os.as_deref().unwrap_or("unknown");
    if os != "linux" {
        return unfit(format!(
            "the engine runs {os} containers; switch it to Linux containers, or choose the jail backend"
        ));
    }
    let machine = version.arch.as_deref().unwrap_or("unknown");
    match Machine::named(machine) {
        Some(machine) => Ok((engine.split(['+', '-']).next().unwrap_or(engine).to_owned(), machine)),
        None => unfit(format!("the engine runs on {machine}; redroom knows x86_64 and aarch64")),
    }
}

fn unavailable(why: &str) -> Error {
    let asked = env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let others: Vec<String> = if asked.is_some() { Vec::new() } else { other_sockets().collect() };
    Error::backend("docker_unavailable", advice(why, asked.as_deref(), &others))
}

/// What was tried, and what to do about it.
fn advice(why: &str, asked: Option<&str>, others: &[String]) -> String {
    let tried = match asked {
        Some(host) => format!("DOCKER_HOST={}", without_user(host)),
        None => format!("{DEFAULT_SOCKET} (DOCKER_HOST is not set)"),
    };
    let todo = match others {
        [] => "start Docker, set DOCKER_HOST to its socket (`docker context inspect` shows it), or choose the jail backend"
            .to_owned(),
        [socket, ..] => format!("there is a socket at {socket}: set DOCKER_HOST=unix://{socket} to use it"),
    };
    format!("no Docker engine answers; tried {tried}: {why}; {todo}")
}

/// A URL without user and password.
fn without_user(host: &str) -> String {
    match (host.find("://"), host.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://{}", &host[..scheme], &host[at + 1..]),
        _ => host.to_owned(),
    }
}

/// Sockets of Docker Desktop, Colima and rootless engines, which the client library does not look for.
fn other_sockets() -> impl Iterator<Item = String> {
    [("HOME", ".docker/run/docker.sock"), ("HOME", ".colima/default/docker.sock"), ("XDG_RUNTIME_DIR", "docker.sock")]
        .into_iter()
        .filter_map(|(folder, socket)| Some(Path::new(&env::var_os(folder)?).join(socket)))
        .filter(|socket| socket.exists())
        .map(|socket| socket.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(engine: &str, api: &str, os: &str, arch: &str) -> SystemVersion {
        SystemVersion {
            version: Some(engine.to_owned()),
            api_version: Some(api.to_owned()),
            os: Some(os.to_owned()),
            arch: Some(arch.to_owned()),
            ..Default::default()
        }
    }

    #[test]
    fn an_engine_that_is_new_enough_is_fit() {
        assert_eq!(
            fit(&version("28.5.2+dfsg4", "1.51", "linux", "amd64")).unwrap(),
            ("28.5.2".to_owned(), Machine::X86_64)
        );
        assert_eq!(fit(&version("29.0.0-rc.1", "1.52", "linux", "arm64")).unwrap().1, Machine::Aarch64);
    }

    #[test]
    fn old_foreign_and_nameless_engines_are_refused_with_what_to_do() {
        for (unfit, word) in [
            (version("27.5.1", "1.47", "linux", "amd64"), "27.5.1"),
            (version("28.0.0", "1.47", "linux", "amd64"), "1.47"),
            (version("library-import", "1.51", "linux", "amd64"), "update it"),
            (version("28.5.2", "1.51", "windows", "amd64"), "Linux containers"),
            (version("28.5.2", "1.51", "linux", "riscv64"), "riscv64"),
            (SystemVersion::default(), "unknown"),
        ] {
            let error = fit(&unfit).unwrap_err();
            assert_eq!(error.code(), "docker_unavailable");
            assert!(error.detail().contains(word), "{error}");
        }
    }

    #[test]
    fn an_absent_engine_is_answered_with_what_was_tried() {
        let text = advice("socket not found", None, &[]);
        assert!(text.contains(DEFAULT_SOCKET) && text.contains("start Docker"), "{text}");
        let text = advice("socket not found", None, &["/home/u/.colima/default/docker.sock".to_owned()]);
        assert!(text.contains("DOCKER_HOST=unix:///home/u/.colima/default/docker.sock"), "{text}");
        let text = advice("refused", Some("tcp://user:hunter2@host:2375"), &[]);
        assert!(text.contains("tcp://host:2375") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn statuses_tell_failures_apart() {
        let refused =
            |status_code| failed("x", BollardError::DockerResponseServerError { status_code, message: String::new() });
        assert_eq!(unless::<()>(&[404, 409], Err(refused(409))), Ok(None));
        assert_eq!(unless::<()>(&[404], Err(refused(500))), Err(refused(500)));
    }
}
