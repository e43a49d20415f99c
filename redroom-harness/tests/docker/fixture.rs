//! What the trials share: one runtime, one backend, one slot for each trial.

use std::collections::HashMap;
use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::query_parameters::ListContainersOptionsBuilder;
use libtest_mimic::Failed;
use redroom_harness::Error;
use redroom_harness::backend::docker::Docker;
use redroom_harness::backend::{
    Backend, Base, CollectedEntry, CollectedKind, Duplex, Owner, PlacedEntry, PlacedKind, Program, Sandbox,
    SandboxLimits, SandboxSpec, Slot, SlotSpec, Visitor,
};
use tokio::runtime::Runtime;

pub(crate) use crate::sandboxes::{Heard, ensure, ran, said, same, shell};

pub(crate) const MIB: u64 = 1024 * 1024;

pub(crate) struct Fixture {
    pub(crate) runtime: Runtime,
    pub(crate) docker: Docker,
    pub(crate) base: Base,
    pub(crate) session: String,
}

static SHARED: OnceLock<Result<Fixture, Error>> = OnceLock::new();
static SLOTS: AtomicU32 = AtomicU32::new(0);

impl Fixture {
    pub(crate) fn shared() -> Result<&'static Fixture, &'static Error> {
        SHARED.get_or_init(Fixture::new).as_ref()
    }

    pub(crate) fn new() -> Result<Fixture, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let (docker, base) = runtime.block_on(async {
            let docker = Docker::connect(Path::new("/proc/self/exe"), "a trial").await?;
            let shell = Program::new("shell", "1");
            let base = docker.prepare(&shell, &|line| eprintln!("{line}")).await?;
            Ok::<_, Error>((docker, base))
        })?;
        Ok(Fixture { runtime, docker, base, session: uuid::Uuid::new_v4().to_string() })
    }

    /// Runs a trial's body in a slot of its own, and closes the slot whatever happens.
    pub(crate) fn in_slot<F: Future<Output = Result<(), Failed>>>(
        &self,
        body: impl FnOnce(Place) -> F,
    ) -> Result<(), Failed> {
        self.runtime.block_on(async {
            let place = self.open().await?;
            let slot = place.slot.clone();
            let outcome = tokio::time::timeout(Duration::from_secs(180), body(place)).await;
            slot.close().await?;
            outcome.map_err(|_| Failed::from("the trial took more than three minutes"))?
        })
    }

    pub(crate) async fn open(&self) -> Result<Place, Error> {
        self.open_in(&self.session).await
    }

    /// A slot of another session of this process.
    pub(crate) async fn open_in(&self, session: &str) -> Result<Place, Error> {
        let number = SLOTS.fetch_add(1, Ordering::Relaxed);
        let open = self
            .docker
            .open_slot(SlotSpec { session: session.to_owned(), number, lease: redroom_sidecar::Lease::default() })
            .await?;
        Ok(Place {
            number,
            session: session.to_owned(),
            slot: open.slot.into(),
            link: open.link,
            base: self.base.clone(),
        })
    }
}

pub(crate) struct Place {
    pub(crate) slot: std::sync::Arc<dyn Slot>,
    pub(crate) link: Box<dyn Duplex>,
    number: u32,
    session: String,
    base: Base,
}

impl Place {
    pub(crate) async fn sandbox(&self, entries: Vec<PlacedEntry>) -> Result<Box<dyn Sandbox>, Error> {
        self.limited(entries, |_| {}).await
    }

    pub(crate) async fn limited(
        &self,
        entries: Vec<PlacedEntry>,
        change: impl FnOnce(&mut SandboxLimits),
    ) -> Result<Box<dyn Sandbox>, Error> {
        let mut limits =
            SandboxLimits { cpus: 64.0, memory: 512 * MIB, pids: 256, file_size: 1024 * MIB, open_files: 4096 };
        change(&mut limits);
        let env = vec![("HOME".to_owned(), "/home/agent".to_owned()), ("GREETING".to_owned(), "a b=c".to_owned())];
        let spec = SandboxSpec { run: "trial".to_owned(), base: self.base.clone(), limits, env, entries };
        self.slot.open_sandbox(spec).await
    }
}

/// An entry of the agent's.
pub(crate) fn file(path: &str, mode: u32, content: &str) -> PlacedEntry {
    let kind = PlacedKind::File(content.as_bytes().to_vec().into());
    PlacedEntry { path: path.to_owned(), kind, mode, owner: Owner::Agent }
}

/// Everything that was collected, by path.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) entries: HashMap<Vec<u8>, (CollectedEntry, Vec<u8>)>,
    pub(crate) missed: Vec<(Vec<u8>, String)>,
}

impl Collected {
    pub(crate) async fn of(sandbox: &dyn Sandbox, roots: &[&str]) -> Result<Collected, Error> {
        let mut collected = Collected::default();
        let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
        sandbox.collect(&roots, &mut collected).await?;
        Ok(collected)
    }

    pub(crate) fn get(&self, path: impl AsRef<[u8]>) -> Result<&(CollectedEntry, Vec<u8>), Failed> {
        let path = path.as_ref();
        self.entries.get(path).ok_or_else(|| format!("{} was not collected", path.escape_ascii()).into())
    }

    pub(crate) fn kind(&self, path: impl AsRef<[u8]>) -> Result<&CollectedKind, Failed> {
        self.get(path).map(|(entry, _)| &entry.kind)
    }

    pub(crate) fn text(&self, path: impl AsRef<[u8]>) -> Result<String, Failed> {
        self.get(path).map(|(_, content)| String::from_utf8_lossy(content).into_owned())
    }
}

impl Visitor for Collected {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> std::io::Result<()> {
        let mut kept = Vec::new();
        content.take(MIB).read_to_end(&mut kept)?;
        self.entries.insert(entry.path.clone(), (entry.clone(), kept));
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        self.missed.push((path.to_vec(), why.to_owned()));
    }
}

/// Waits until `holds`, at most so long.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    patience: Duration,
    what: &str,
    mut holds: impl FnMut() -> F,
) -> Result<Duration, Failed> {
    let start = tokio::time::Instant::now();
    while !holds().await {
        ensure(start.elapsed() < patience, || format!("{what}: not within {patience:?}"))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(start.elapsed())
}

/// Names and states of a session's containers.
pub(crate) async fn containers(session: &str) -> HashMap<String, String> {
    labelled(&[format!("redroom.session={session}")]).await
}

/// The name of the agent's container in a slot.
pub(crate) async fn agent_of(place: &Place) -> String {
    let labels = [
        format!("redroom.session={}", place.session),
        format!("redroom.slot={}", place.number),
        "redroom.role=agent".to_owned(),
    ];
    let names: Vec<String> = labelled(&labels).await.into_keys().collect();
    names.concat().trim_start_matches('/').to_owned()
}

async fn labelled(labels: &[String]) -> HashMap<String, String> {
    let docker = bollard::Docker::connect_with_defaults().expect("the engine that was there before");
    let filters = HashMap::from([("label".to_owned(), labels.to_vec())]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = docker.list_containers(Some(options)).await.expect("a list of containers");
    let name = |names: Option<Vec<String>>| names.unwrap_or_default().concat();
    found.into_iter().map(|it| (name(it.names), it.state.map(|state| state.to_string()).unwrap_or_default())).collect()
}

/// What stands in for a sidecar: gives back what it is given.
pub(crate) fn echo() -> ExitCode {
    eprintln!("the echo is there");
    match std::io::copy(&mut std::io::stdin().lock(), &mut std::io::stdout().lock()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether the trials left anything in the engine.
pub(crate) fn tidy() -> Result<(), String> {
    let Some(Ok(fixture)) = SHARED.get() else { return Ok(()) };
    fixture.runtime.block_on(async {
        let clean = async || containers(&fixture.session).await.is_empty();
        match eventually(Duration::from_secs(10), "the engine is tidy", clean).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("left behind: {:?}", containers(&fixture.session).await)),
        }
    })
}
