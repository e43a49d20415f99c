//! The connection to a Docker engine: checked, and asked with a deadline round every call.
//!
//! Failures are told apart by their HTTP status only; texts differ from engine to engine. An engine that hangs answers nothing and closes
//! nothing: while a call takes long, it is asked whether it is there at all, and if it is not, nothing is waited for any more.

use std::env;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::errors::Error as BollardError;
use bollard::models::SystemVersion;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::address::{self, Address, AddressError, Found, Source, Surroundings, without_user};
use super::connection;
use super::elf::Machine;
use super::enforced::Enforced;
use super::known::Known;
use crate::error::{Call, Error, Result, chain};
use crate::run_folder::RunFolder;

/// How long an engine is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// When a call is given up: an engine that is alive answers in a fraction of a second, a busy one within seconds.
    pub(crate) call: Duration,
    /// When the build of an image is given up.
    pub(crate) build: Duration,
    /// How long a call may take before the engine is asked whether it is there at all, and how often then.
    pub(crate) look: Duration,
    /// When an engine that does not answer that either counts as hanging.
    pub(crate) sign: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            call: Duration::from_secs(120),
            build: Duration::from_secs(30 * 60),
            look: Duration::from_secs(10),
            sign: Duration::from_secs(15),
        }
    }
}

/// When an engine counts as absent.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// When one counts as lost that is asked because something else says so.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);

const OLDEST_ENGINE: u32 = 28;
const OLDEST_API: (u32, u32) = (1, 48);

/// An engine that answers and is fit for sandboxes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) docker: bollard::Docker,
    facts: EngineFacts,
    patience: Patience,
    /// It has given no sign of life; until the next one, nothing is asked of it in earnest.
    silent: Arc<AtomicBool>,
    /// What makes and removes containers, whoever waits for it: a session ends when they have.
    pub(crate) tasks: TaskTracker,
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
    /// Which of the limits that can be done without it enforces.
    pub(crate) enforced: Enforced,
}

/// Where the engine is, and what is known of it.
pub(crate) struct Whereabouts {
    found: Found,
    pub(crate) known: Known,
}

impl Whereabouts {
    /// As the environment and the docker command's files say it.
    pub(crate) fn find(folder: &RunFolder) -> Result<Self> {
        let found = address::find(&Surroundings::read()).map_err(|error| nowhere(&error))?;
        let known = Known::of(folder, &found.address.to_string());
        Ok(Whereabouts { found, known })
    }
}

impl Engine {
    /// Connects, and asks what it is.
    pub(crate) async fn connect(whereabouts: &Whereabouts) -> Result<Self> {
        const FACTS: &str = "facts";
        let (found, known) = (&whereabouts.found, &whereabouts.known);
        let patience = Patience::default();
        // Own deadlines are shorter where they should be; the client's would cut builds.
        let docker = connection::client(&found.address, patience.build).map_err(|why| unavailable(found, &why))?;
        if let Some(facts) = known.get(FACTS).and_then(|text| serde_json::from_str(&text).ok()) {
            answer(found, docker.ping()).await?;
            return Ok(Engine::of(docker, facts, patience));
        }
        let (version, info) = answer(found, async { tokio::try_join!(docker.version(), docker.info()) }).await?;
        let processors = info.ncpu.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0).unwrap_or(1);
        let (version, machine) = fit(&version)?;
        let facts = EngineFacts { version, machine, processors, enforced: Enforced::of(&info)? };
        if let Ok(text) = serde_json::to_string(&facts) {
            known.put(FACTS, &text);
        }
        Ok(Engine::of(docker, facts, patience))
    }

    fn of(docker: bollard::Docker, facts: EngineFacts, patience: Patience) -> Self {
        let tasks = TaskTracker::new();
        // So that it can be waited for; tasks are still taken.
        tasks.close();
        Engine { docker, facts, patience, silent: Arc::default(), tasks }
    }

    pub(crate) fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Makes one call; `what` completes "cannot …".
    pub(crate) async fn call<T>(&self, what: &str, call: impl Future<Output = Result<T, BollardError>>) -> Result<T> {
        self.within(self.patience.call, what, async { call.await.map_err(|error| failed(what, error)) }).await
    }

    /// The result of `work`, or `docker_timeout` past `deadline`, or as soon as the engine gives no sign of life.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        what: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let cannot = |error: Error| error.map_detail(|detail| format!("cannot {what}: {detail}"));
        if self.silent.load(Ordering::Relaxed) {
            self.sign_of_life(CHECK_DEADLINE.min(self.patience.sign)).await.map_err(cannot)?;
        }
        tokio::select! {
            biased;
            done = timeout(deadline, work) => done.unwrap_or_else(|_| {
                let seconds = deadline.as_secs_f64();
                let detail = format!("cannot {what}: the Docker engine has not answered within {seconds} s; is it overloaded?");
                Err(Error::backend("docker_timeout", detail))
            }),
            silence = self.silence() => Err(cannot(silence)),
        }
    }

    /// Whether it is there: an error where it is not.
    pub(crate) async fn check(&self) -> Result<()> {
        self.sign_of_life(CHECK_DEADLINE).await
    }

    /// Ends when the engine gives no sign of life any more, and says so.
    async fn silence(&self) -> Error {
        loop {
            sleep(self.patience.look).await;
            if let Err(silence) = self.sign_of_life(self.patience.sign).await {
                return silence;
            }
        }
    }

    async fn sign_of_life(&self, deadline: Duration) -> Result<()> {
        let sign = match timeout(deadline, self.docker.ping()).await {
            // Whatever it says, it is there.
            Ok(Ok(_) | Err(BollardError::DockerResponseServerError { .. })) => Ok(()),
            Ok(Err(error)) => {
                Err(Error::backend("docker_lost", format!("the Docker engine is gone: {}", chain(&error))))
            }
            Err(_) => {
                let seconds = deadline.as_secs_f64();
                let detail = format!("the Docker engine hangs: it has given no sign of life for {seconds} s");
                Err(Error::backend("docker_timeout", detail))
            }
        };
        self.silent.store(sign.is_err(), Ordering::Relaxed);
        sign
    }
}

/// The answer to a first question.
async fn answer<T>(found: &Found, asking: impl Future<Output = Result<T, BollardError>>) -> Result<T> {
    match timeout(CONNECT_DEADLINE, asking).await {
        Ok(answer) => answer.map_err(|error| unavailable(found, &chain(&error))),
        Err(_) => Err(unavailable(found, &format!("no answer within {} s", CONNECT_DEADLINE.as_secs()))),
    }
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
    let components = version.components.as_deref().unwrap_or_default();
    if let Some(podman) = components.iter().find(|component| component.name.starts_with("Podman")) {
        return unfit(podman_lacks(&podman.version, version.api_version.as_deref().unwrap_or("unknown")));
    }
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

/// Why Podman is refused. Tried with 4.3.1: an attachment before the start, its end as the container's end, a shared network namespace,
/// uploads and archives are as Docker's; containers that are to remove themselves stay, and nothing of the isolation is tried there.
fn podman_lacks(version: &str, api: &str) -> String {
    let (major, minor) = OLDEST_API;
    format!(
        "what answers is Podman {version} with Docker's API {api}; redroom needs {major}.{minor}, containers that remove themselves (which \
         Podman's leave undone), and an isolation that was tried: set DOCKER_HOST to a Docker Engine {OLDEST_ENGINE} or newer, or choose \
         the jail backend, which needs no engine"
    )
}

/// What to do where no address can be read.
fn nowhere(error: &AddressError) -> Error {
    Error::backend("docker_unavailable", format!("it is not known where the Docker engine is: {error}"))
}

/// What is said of a socket that this user may not use.
const FORBIDDEN: &str = "your user may not use this socket";

/// Why no engine is used, in few words, for whoever takes its place: one that answers and is unfit says why first.
pub(super) fn in_short(unavailable: &Error) -> &str {
    let detail = unavailable.detail();
    if detail.contains(FORBIDDEN) {
        "an engine may be there, but this user may not use its socket: permission denied"
    } else if detail.starts_with("the engine ") {
        detail.split([':', ';']).next().unwrap_or(detail)
    } else {
        "no engine answers"
    }
}

fn unavailable(found: &Found, why: &str) -> Error {
    let others: Vec<String> = if found.source == Source::Default { other_sockets().collect() } else { Vec::new() };
    Error::backend("docker_unavailable", advice(found, why, &others))
}

/// What was tried, and what to do about it.
fn advice(found: &Found, why: &str, others: &[String]) -> String {
    let Found { address, source } = found;
    let tried = match source {
        Source::Host => format!("DOCKER_HOST={}", without_user(&address.to_string())),
        source => format!("{address} ({source})"),
    };
    let forbidden = why.to_lowercase().contains("permission denied");
    let todo = match (others, address) {
        (_, Address::Unix(_)) if forbidden => {
            let own = match others.first() {
                Some(socket) => format!("set DOCKER_HOST=unix://{socket} to use the engine there"),
                None => "run a rootless engine of your own".to_owned(),
            };
            format!(
                "{FORBIDDEN}: add it to the socket's group (usually `docker`) and log in again, {own}, or choose the jail backend"
            )
        }
        ([socket, ..], _) => format!("there is a socket at {socket}: set DOCKER_HOST=unix://{socket} to use it"),
        ([], Address::Unix(_)) => {
            "start Docker, set DOCKER_HOST to its socket (`docker context inspect` shows it), or choose the jail backend"
                .to_owned()
        }
        ([], Address::Tcp { certificates: None, .. }) => {
            "start Docker there, set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH if it wants TLS, or choose the jail backend"
                .to_owned()
        }
        ([], Address::Tcp { certificates: Some(_), .. }) => {
            "start Docker there, see to it that ca.pem, cert.pem and key.pem are those of this engine, or choose the jail backend"
                .to_owned()
        }
    };
    format!("no Docker engine answers; tried {tried}: {why}; {todo}")
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
mod tests;
