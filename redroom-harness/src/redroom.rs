//! A session: one backend, `parallel` slots, and the runs in them.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redroom_sidecar::Authority;
use redroom_sidecar::wire::{CertificateAuthority, Hit};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use crate::agent::Agent;
use crate::backend::{Backend, Base, Program, Swept};
use crate::error::{Error, Result};
use crate::evidence::{Log, held};
use crate::options::RunOptions;
use crate::run::{Live, Observer, Run, SYSTEM_BUNDLE};
use crate::run_folder::RunFolder;
use crate::settings::Settings;
use crate::slot::{Pool, SlotLocks};
use crate::suite::Suite;

/// How long the end of a session waits for what is being made, for its runs to finish, and for the removal of the rest. Each of them
/// has deadlines of its own round every call; these are for what nobody has thought of.
const MAKING_DEADLINE: Duration = Duration::from_secs(3 * 60);
const RUNS_DEADLINE: Duration = Duration::from_secs(30 * 60);
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// How long a process that is about to end waits for what is being made, so that it can be removed.
const MAKING_PATIENCE: Duration = Duration::from_millis(2500);

/// A session: a backend and its slots. Made once, used for many runs, ended by [`stop`](Self::stop).
#[derive(Clone)]
pub struct Redroom(Arc<Session>);

pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) settings: Settings,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) authority: CertificateAuthority,
    pub(crate) pool: Pool,
    /// The folder that the evidence folders of this session's runs lie in.
    pub(crate) out: PathBuf,
    /// Hears of what takes long, and of what happens in runs.
    pub(crate) observer: Arc<dyn Observer>,
    /// Whether it has been told that a guard may never be asked: once is enough.
    pub(crate) told_of_guard: AtomicBool,
    /// Held while an agent's program is found.
    finding: tokio::sync::Mutex<()>,
    bases: Cells<Program, PreparedBase>,
    /// By the program, and by the version that was asked for.
    versions: Cells<(Program, String), String>,
    unattributed: Arc<Mutex<Log<Hit>>>,
    live: Mutex<Vec<Arc<Live>>>,
    stopping: Mutex<bool>,
    stopped: watch::Sender<bool>,
}

/// Who watches a session that a program starts by itself.
struct Tracing;

impl Observer for Tracing {
    fn notice(&self, line: &str) {
        tracing::info!(target: "redroom::prepare", "{line}");
    }
}

/// What sandboxes of one agent start from.
#[derive(Clone)]
pub(crate) struct PreparedBase {
    pub(crate) program: Program,
    pub(crate) base: Base,
    /// The certificates that the base trusts by itself.
    pub(crate) bundle: Option<Vec<u8>>,
}

impl Redroom {
    /// Starts a session: settings are read and checked, the backend is chosen and asked whether it can do the job, what dead
    /// sessions left behind is removed. Slots and images are made when the first run needs them.
    ///
    /// Needs a tokio runtime with its I/O and time drivers, and a program that calls `redroom::main!()` or
    /// [`redroom::init`](crate::init) first thing in `main`.
    ///
    /// # Errors
    ///
    /// `docker_unavailable`, `sidecar_unavailable` (the program never called `init`), and whatever is wrong with the settings.
    pub async fn start(suite: Suite) -> Result<Self> {
        Self::with_settings(Settings::load(suite, None)?, Arc::new(Tracing)).await
    }

    pub(crate) async fn with_settings(settings: Settings, observer: Arc<dyn Observer>) -> Result<Self> {
        held::hold(&settings.held());
        let locks = SlotLocks::of(RunFolder::open()?);
        let backend = crate::backend::choose(settings.backend).await?;
        let swept = backend.sweep_if_due().await?;
        if !swept.containers.is_empty() {
            tracing::info!(containers = ?swept.containers, "removed what dead sessions had left behind");
        }
        if !swept.left.is_empty() {
            tracing::warn!(left = ?swept.left, "what dead sessions left behind could not be removed whole");
        }
        Self::over(backend, locks, settings, observer)
    }

    /// A session of a backend that is ready.
    fn over(
        backend: Arc<dyn Backend>,
        locks: SlotLocks,
        settings: Settings,
        observer: Arc<dyn Observer>,
    ) -> Result<Self> {
        let id = uuid::Uuid::new_v4().to_string();
        let authority = Authority::generate().map_err(|error| {
            Error::redroom("authority_failed", format!("cannot make the fake internet's certificates: {error}"))
        })?;
        let unattributed: Arc<Mutex<Log<Hit>>> = Arc::default();
        let sink = unattributed.clone();
        let pool = Pool::new(
            backend.clone(),
            id.clone(),
            locks,
            settings.parallel,
            settings.lease,
            Arc::new(move |hit| {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(hit);
            }),
        );
        let out = settings.environment.evidence_folder(&id);
        Ok(Redroom(Arc::new(Session {
            id,
            settings,
            backend,
            authority,
            pool,
            out,
            observer,
            told_of_guard: AtomicBool::new(false),
            finding: tokio::sync::Mutex::default(),
            bases: Mutex::default(),
            versions: Mutex::default(),
            unattributed,
            live: Mutex::default(),
            stopping: Mutex::default(),
            stopped: watch::Sender::new(false),
        })))
    }

    /// The session's id: a UUID, the same as in the labels of everything that it makes.
    pub fn session(&self) -> &str {
        &self.0.id
    }

    /// The version of the suite's agent, as it is asked for; it was checked against the program itself.
    pub fn agent_version(&self) -> &str {
        self.0.settings.agent.version()
    }

    /// The backend, whether it isolates, and why it was chosen.
    pub fn backend(&self) -> crate::backend::BackendFacts {
        self.0.backend.facts()
    }

    /// Hits that fit no run: what arrived when nobody lived in a slot. Bounded as a run's own: of many the newest, and the first
    /// and the last that hold a secret.
    pub fn unattributed_hits(&self) -> Vec<Hit> {
        let redactor = held::everything();
        let hits = self.0.unattributed.lock().unwrap_or_else(PoisonError::into_inner).entries();
        hits.into_iter().map(|hit| redactor.value(hit)).collect()
    }

    /// The folder that holds the evidence of this session's runs.
    pub fn evidence_folder(&self) -> &std::path::Path {
        &self.0.out
    }

    /// Starts a run: waits for a slot, plants, starts the sandbox.
    ///
    /// # Errors
    ///
    /// What is wrong with the options is said before anything is started; else what the backend, the agent's program or the
    /// sidecar could not do. Nothing is left behind.
    pub async fn start_run(&self, options: RunOptions) -> Result<Run> {
        crate::run::start(&self.0, options).await
    }

    /// Ends every run that is still live, then removes everything that the session made. Idempotent, from any task: every
    /// caller waits until it is done. It goes on to its end even where whoever called does not wait, and it has one: an engine that does
    /// not answer any more is given up after minutes, and what is left there is swept at the next start.
    pub async fn stop(&self) {
        let mut stopped = self.0.stopped.subscribe();
        let first = !std::mem::replace(&mut *self.0.stopping.lock().unwrap_or_else(PoisonError::into_inner), true);
        if first {
            let session = self.0.clone();
            tokio::spawn(async move {
                session.stop().await;
                session.stopped.send_replace(true);
            });
        }
        let longest = MAKING_DEADLINE + RUNS_DEADLINE + REMOVAL_DEADLINE + Duration::from_secs(1);
        if timeout(longest, stopped.wait_for(|stopped| *stopped)).await.is_err() {
            tracing::warn!("the task that ends the session is gone with its runtime; the next start will sweep it");
        }
    }

    /// Removes everything at once, without collecting: for a process that is about to end.
    pub(crate) async fn abandon(&self) {
        // What hangs half made is left for the sweep.
        let _ = timeout(MAKING_PATIENCE, self.0.pool.shut()).await;
        self.0.remove().await;
    }
}

impl Session {
    async fn stop(&self) {
        let late = |what| tracing::warn!(what, "the session ends without it; the next start will sweep what is left");
        if timeout(MAKING_DEADLINE, self.pool.shut()).await.is_err() {
            late("what is being made");
        }
        let live = self.live().clone();
        let runs = join_all(live.iter().map(|run| run.cut_short(crate::slot::stopped())));
        if timeout(RUNS_DEADLINE, runs).await.is_err() {
            late("the end of its runs");
        }
        if timeout(REMOVAL_DEADLINE, self.remove()).await.is_err() {
            late("the removal");
        }
    }

    async fn remove(&self) {
        self.pool.close().await;
        if let Err(error) = self.backend.end_session(&self.id).await {
            tracing::warn!(%error, "the session could not be removed whole; the next start will sweep it");
        }
    }

    /// What sandboxes of this agent start from: made once in a session, whoever asks first.
    pub(crate) async fn base_of(&self, agent: &Arc<dyn Agent>) -> Result<PreparedBase> {
        let progress = |line: &str| self.observer.notice(line);
        let program = {
            // One after the other: what the first fetches, the others find.
            let _finding = self.finding.lock().await;
            agent.program(&self.settings.environment.program_sources(), &progress).await?
        };
        let cell = cell_of(&self.bases, program.clone());
        let base = cell
            .get_or_try_init(|| async {
                let base = self.backend.prepare(&program, &progress).await?;
                // It may take a container.
                let _making = self.pool.making().await?;
                let bundle = self.backend.base_file(&base, SYSTEM_BUNDLE).await?;
                Ok(PreparedBase { program: program.clone(), base, bundle })
            })
            .await?;
        Ok(base.clone())
    }

    /// Checks once in a session that the agent's program is the version that was asked for, unless that is known of the image.
    pub(crate) async fn check_agent_version(&self, run: &Run, base: &PreparedBase) -> Result<()> {
        let agent = run.agent();
        let Some(command) = agent.version_command() else { return Ok(()) };
        let cell = cell_of(&self.versions, (base.program.clone(), format!("{} {}", agent.name(), agent.version())));
        let check = || async {
            let fact = format!("version {} {}", agent.name(), agent.version());
            if self.backend.was_checked(&base.base, &fact) {
                return Ok(agent.version().to_owned());
            }
            let version = run.version(command).await?;
            self.backend.checked(&base.base, &fact);
            Ok(version)
        };
        cell.get_or_try_init(check).await.map(drop)
    }

    /// Takes note of a live run, so that stopping the session ends it.
    pub(crate) fn enter(&self, run: &Arc<Live>) {
        let mut live = self.live();
        live.retain(|run| run.is_live());
        live.push(run.clone());
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes what dead sessions of redroom left behind, in the engine and in this machine's control groups; live ones are left alone, and
/// so is everything of other programs: what counts are labels, never names. Every session does this at its start, so that it is only
/// needed to tidy up without one. Can be called by any program, also by one that does not call [`init`](crate::init), on a multi-thread
/// runtime.
///
/// A session counts as dead when its process is gone, or has hung for longer than its [lease](Suite::lease). Of sessions of
/// other users and machines on the same engine it is known only whether their slots still run.
///
/// ```no_run
/// # use redroom_harness as redroom;
/// # async fn tidy() -> redroom::Result<()> {
/// let swept = redroom::sweep().await?;
/// println!("removed {:?}; still there: {:?}", swept.containers, swept.left);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// An engine that does not answer is told in [`Swept::left`] where the jail's leftovers could be looked at; elsewhere it is the error:
/// `docker_unavailable`. `run_folder_unusable` and `runtime_unsuitable` as for a session.
pub async fn sweep() -> Result<Swept> {
    crate::backend::sweep_all().await
}

/// What is made once for each of something.
type Cells<K, T> = Mutex<HashMap<K, Arc<OnceCell<T>>>>;

fn cell_of<K: Eq + Hash, T>(cells: &Cells<K, T>, key: K) -> Arc<OnceCell<T>> {
    cells.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
}

impl std::fmt::Debug for Redroom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redroom").field("session", &self.0.id).finish_non_exhaustive()
    }
}
