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
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

    use super::*;
    use crate::backend::docker::address::DEFAULT_SOCKET;

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
            assert!(in_short(&error).starts_with("the engine ") && in_short(&error).len() < 60, "{}", in_short(&error));
        }
    }

    #[test]
    fn podman_is_told_from_an_old_engine() {
        let component = |name: &str| bollard::models::SystemVersionComponents {
            name: name.to_owned(),
            version: "5.4.2".to_owned(),
            ..Default::default()
        };
        let podman = SystemVersion {
            components: Some(vec![component("Podman Engine"), component("Conmon")]),
            ..version("5.4.2", "1.41", "linux", "amd64")
        };
        let error = fit(&podman).unwrap_err();
        assert_eq!(error.code(), "docker_unavailable");
        for word in ["Podman 5.4.2", "1.41", "1.48", "remove themselves", "jail"] {
            assert!(error.detail().contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn an_absent_engine_is_answered_with_what_was_tried() {
        let usual = Found { address: Address::Unix(DEFAULT_SOCKET.into()), source: Source::Default };
        let text = advice(&usual, "socket not found", &[]);
        assert!(text.contains(DEFAULT_SOCKET) && text.contains("start Docker"), "{text}");
        let text = advice(&usual, "socket not found", &["/home/u/.colima/default/docker.sock".to_owned()]);
        assert!(text.contains("DOCKER_HOST=unix:///home/u/.colima/default/docker.sock"), "{text}");
        let text = advice(&usual, "error trying to connect: Permission denied (os error 13)", &[]);
        assert!(text.contains("group") && text.contains("rootless") && text.contains("ermission denied"), "{text}");
        let error = Error::backend("docker_unavailable", text);
        assert!(in_short(&error).contains("permission denied"), "{}", in_short(&error));
        let own = advice(&usual, "Permission denied", &["/run/user/7/docker.sock".to_owned()]);
        assert!(own.contains("DOCKER_HOST=unix:///run/user/7/docker.sock"), "{own}");
        let error = Error::backend("docker_unavailable", advice(&usual, "socket not found", &[]));
        assert_eq!(in_short(&error), "no engine answers");
        let address = Address::Tcp { host: "host".to_owned(), port: 2375, certificates: None };
        let text = advice(&Found { address, source: Source::Host }, "refused", &[]);
        assert!(text.contains("DOCKER_HOST=tcp://host:2375") && text.contains("DOCKER_TLS_VERIFY"), "{text}");
    }

    #[test]
    fn statuses_tell_failures_apart() {
        let refused =
            |status_code| failed("x", BollardError::DockerResponseServerError { status_code, message: String::new() });
        assert_eq!(unless::<()>(&[404, 409], Err(refused(409))), Ok(None));
        assert_eq!(unless::<()>(&[404], Err(refused(500))), Err(refused(500)));
    }

    /// An engine at a socket, which answers each request by its path: at once, or never.
    async fn stub(answers: fn(&str) -> bool, patience: Patience) -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut stream = tokio::io::BufReader::new(stream);
                    let mut line = String::new();
                    stream.read_line(&mut line).await?;
                    if !answers(line.split(' ').nth(1).unwrap_or_default()) {
                        std::future::pending::<()>().await;
                    }
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK").await?;
                    stream.shutdown().await
                });
            }
        });
        let docker = connection::client(&Address::Unix(socket), Duration::from_secs(600)).unwrap();
        let holding =
            bollard::models::SystemInfo { memory_limit: Some(true), pids_limit: Some(true), ..Default::default() };
        let enforced = Enforced::of(&holding).unwrap();
        let facts = EngineFacts { version: "28".to_owned(), machine: Machine::X86_64, processors: 1, enforced };
        (folder, Engine::of(docker, facts, patience))
    }

    const IMPATIENT: Patience = Patience {
        call: Duration::from_millis(800),
        build: Duration::from_millis(1600),
        look: Duration::from_millis(100),
        sign: Duration::from_millis(300),
    };

    #[test]
    fn an_engine_is_waited_for_as_long_as_it_is_documented() {
        let patience = Patience::default();
        assert_eq!((patience.call.as_secs(), patience.build.as_secs()), (2 * 60, 30 * 60));
        assert!(patience.look + patience.sign < Duration::from_secs(30), "one that hangs is known sooner");
    }

    #[tokio::test]
    async fn an_engine_that_lives_but_never_answers_a_call_is_given_up_at_the_call_s_deadline() {
        let (_folder, engine) =
            stub(|path| path.ends_with("/_ping"), Patience { sign: Duration::from_secs(60), ..IMPATIENT }).await;
        let asked = tokio::time::Instant::now();
        let error = engine.call("look", engine.docker.inspect_exec("x")).await.unwrap_err();
        assert_eq!(error.code(), "docker_timeout");
        assert!(error.detail().contains("cannot look") && error.detail().contains("0.8 s"), "{error}");
        assert!(asked.elapsed() >= IMPATIENT.call, "{:?}", asked.elapsed());
        let error =
            engine.within(engine.patience().build, "build", std::future::pending::<Result<()>>()).await.unwrap_err();
        assert!(error.detail().contains("cannot build") && error.detail().contains("1.6 s"), "{error}");
        engine.check().await.unwrap();
    }

    #[tokio::test]
    async fn an_engine_that_hangs_is_known_long_before_and_then_asked_no_more() {
        let patience = Patience { call: Duration::from_secs(600), ..IMPATIENT };
        let (_folder, engine) = stub(|_| false, patience).await;
        let look = || engine.call("look", engine.docker.inspect_exec("x"));
        let asked = tokio::time::Instant::now();
        let error = look().await.unwrap_err();
        assert_eq!((error.code(), error.by()), ("docker_timeout", crate::error::By::Backend));
        assert!(error.detail().contains("cannot look") && error.detail().contains("hangs"), "{error}");
        assert!(asked.elapsed() >= patience.look + patience.sign && asked.elapsed() < Duration::from_secs(60));
        // Even a call that would be answered has to wait for a sign of life.
        assert!(engine.within(patience.call, "look", async { Ok(()) }).await.is_err());
    }

    #[tokio::test]
    async fn an_engine_that_is_gone_is_told_from_one_that_hangs() {
        let (folder, engine) = stub(|_| true, IMPATIENT).await;
        engine.check().await.unwrap();
        std::fs::remove_file(folder.path().join("engine.sock")).unwrap();
        let error = engine.check().await.unwrap_err();
        assert_eq!(error.code(), "docker_lost");
        assert!(error.detail().contains("gone"), "{error}");
    }
}
