//! What the trials share: one runtime, one backend, one slot for each trial.

use std::collections::HashMap;
use std::future::Future;
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use redroom_harness::Error;
use redroom_harness::backend::jail::Jail;
use redroom_harness::backend::{
    Backend, Base, CollectedEntry, Duplex, PlacedEntry, Program, Sandbox, SandboxLimits, SandboxSpec, Slot, SlotSpec,
    Visitor,
};
use tokio::runtime::Runtime;

pub(crate) use crate::sandboxes::{Heard, ensure, ran, said, same, shell};

pub(crate) const MIB: u64 = 1024 * 1024;

pub(crate) struct Fixture {
    pub(crate) runtime: Runtime,
    pub(crate) jail: Jail,
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
        let (jail, base) = runtime.block_on(async {
            let jail = Jail::open("a trial").await?;
            let base = jail.prepare(&Program::new("trial", "1"), &|_| {}).await?;
            Ok::<_, Error>((jail, base))
        })?;
        Ok(Fixture { runtime, jail, base, session: uuid::Uuid::new_v4().to_string() })
    }

    /// Runs a trial's body in a slot of its own, and closes the slot whatever happens.
    pub(crate) fn in_slot<F: Future<Output = Result<(), Failed>>>(
        &self,
        body: impl FnOnce(Place) -> F,
    ) -> Result<(), Failed> {
        self.runtime.block_on(async {
            let place = self.open().await?;
            let slot = place.slot.clone();
            let outcome = tokio::time::timeout(Duration::from_secs(120), body(place)).await;
            slot.close().await?;
            outcome.map_err(|_| Failed::from("the trial took more than two minutes"))?
        })
    }

    pub(crate) async fn open(&self) -> Result<Place, Error> {
        let number = SLOTS.fetch_add(1, Ordering::Relaxed);
        let open = self
            .jail
            .open_slot(SlotSpec { session: self.session.clone(), number, lease: redroom_sidecar::Lease::default() })
            .await?;
        Ok(Place { slot: open.slot.into(), link: open.link, base: self.base.clone() })
    }
}

pub(crate) struct Place {
    pub(crate) slot: std::sync::Arc<dyn Slot>,
    pub(crate) link: Box<dyn Duplex>,
    base: Base,
}

impl Place {
    pub(crate) async fn sandbox(&self, entries: Vec<PlacedEntry>) -> Result<Box<dyn Sandbox>, Error> {
        let limits = SandboxLimits { cpus: 2.0, memory: 512 * MIB, pids: 256, file_size: 64 * MIB, open_files: 100 };
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/agent")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let run = uuid::Uuid::new_v4().to_string();
        self.slot.open_sandbox(SandboxSpec { run, base: self.base.clone(), limits, env, entries }).await
    }
}

/// Everything that was collected, by path.
#[derive(Default)]
pub(crate) struct Collected(pub(crate) HashMap<String, (CollectedEntry, Vec<u8>)>);

impl Collected {
    pub(crate) async fn of(sandbox: &dyn Sandbox, roots: &[&str]) -> Result<Collected, Error> {
        let mut collected = Collected::default();
        let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
        sandbox.collect(&roots, &mut collected).await?;
        Ok(collected)
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.0.get(path).map(|(_, content)| String::from_utf8_lossy(content).into_owned())
    }
}

impl Visitor for Collected {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> std::io::Result<()> {
        let mut kept = Vec::new();
        content.take(MIB).read_to_end(&mut kept)?;
        self.0.insert(String::from_utf8_lossy(&entry.path).into_owned(), (entry.clone(), kept));
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        panic!("{}: {why}", path.escape_ascii());
    }
}

/// Waits until `holds`, at most so long.
pub(crate) fn eventually(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Failed> {
    found(patience, what, || holds().then_some(()))
}

/// Waits until there is what `find` looks for, at most so long. What it saw is what counts: a second look may miss it, for the
/// kernel's lists of processes have gaps while one ends, and a process has no arguments while it becomes another program.
pub(crate) fn found<T>(patience: Duration, what: &str, mut find: impl FnMut() -> Option<T>) -> Result<T, Failed> {
    let start = std::time::Instant::now();
    loop {
        if let Some(seen) = find() {
            return Ok(seen);
        }
        ensure(start.elapsed() < patience, || format!("{what}: not within {patience:?}"))?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number of seconds that nobody else sleeps for.
pub(crate) fn mark() -> String {
    format!("9{}", uuid::Uuid::new_v4().as_u128() % 1_000_000_000_000)
}

/// How many processes of this machine have this among their arguments.
pub(crate) fn processes_with(argument: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())).count()
}
