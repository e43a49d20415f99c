//! A session: one backend, `parallel` slots, and the runs in them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redroom_sidecar::Authority;
use redroom_sidecar::wire::{CertificateAuthority, Hit};
use tokio::sync::OnceCell;

use crate::agent::Agent;
use crate::backend::{Backend, Base, Swept};
use crate::error::{Error, Result};
use crate::evidence::held;
use crate::options::RunOptions;
use crate::run::{Live, Observer, Run, SYSTEM_BUNDLE};
use crate::run_folder::RunFolder;
use crate::settings::{BackendChoice, Settings};
use crate::slot::{Pool, SlotLocks};
use crate::suite::Suite;

/// The most hits that fit no run which are kept.
const MAX_UNATTRIBUTED: usize = 1_000;

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
    bases: Mutex<HashMap<String, Arc<OnceCell<PreparedBase>>>>,
    versions: Mutex<HashMap<String, Arc<OnceCell<String>>>>,
    unattributed: Arc<Mutex<Vec<Hit>>>,
    live: Mutex<Vec<Arc<Live>>>,
    stopped: OnceCell<()>,
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
        Self::with_settings(Settings::load(suite)?, Arc::new(Tracing)).await
    }

    pub(crate) async fn with_settings(settings: Settings, observer: Arc<dyn Observer>) -> Result<Self> {
        held::hold(&settings.held());
        let id = uuid::Uuid::new_v4().to_string();
        let locks = SlotLocks::of(RunFolder::open()?);
        let backend = crate::backend::choose(settings.backend).await?;
        let swept = backend.sweep_if_due().await?;
        if !swept.containers.is_empty() {
            tracing::info!(containers = ?swept.containers, "removed what dead sessions had left behind");
        }
        let authority = Authority::generate().map_err(|error| {
            Error::redroom("authority_failed", format!("cannot make the fake internet's certificates: {error}"))
        })?;
        let unattributed: Arc<Mutex<Vec<Hit>>> = Arc::default();
        let sink = unattributed.clone();
        let pool = Pool::new(
            backend.clone(),
            id.clone(),
            locks,
            settings.parallel,
            Arc::new(move |hit| {
                let mut hits = sink.lock().unwrap_or_else(PoisonError::into_inner);
                if hits.len() < MAX_UNATTRIBUTED {
                    hits.push(hit);
                }
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
            bases: Mutex::default(),
            versions: Mutex::default(),
            unattributed,
            live: Mutex::default(),
            stopped: OnceCell::new(),
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

    /// Hits that fit no run: what arrived when nobody lived in a slot. At most the first 1,000.
    pub fn unattributed_hits(&self) -> Vec<Hit> {
        let redactor = held::everything();
        let hits = self.0.unattributed.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
    /// caller waits until it is done.
    pub async fn stop(&self) {
        let stop = async {
            self.0.pool.shut().await;
            let live = self.0.live().clone();
            join_all(live.iter().map(|run| run.cut_short(crate::slot::stopped()))).await;
            self.0.remove().await;
        };
        self.0.stopped.get_or_init(|| stop).await;
    }

    /// Removes everything at once, without collecting: for a process that is about to end.
    pub(crate) async fn abandon(&self) {
        // What hangs half made is left for the sweep.
        let _ = tokio::time::timeout(MAKING_PATIENCE, self.0.pool.shut()).await;
        self.0.remove().await;
    }
}

impl Session {
    async fn remove(&self) {
        self.pool.close().await;
        if let Err(error) = self.backend.end_session(&self.id).await {
            tracing::warn!(%error, "the session could not be removed whole; the next start will sweep it");
        }
    }

    /// What sandboxes of this agent start from: made once in a session, whoever asks first.
    pub(crate) async fn base_of(&self, agent: &Arc<dyn Agent>) -> Result<PreparedBase> {
        let cell = cell_of(&self.bases, agent);
        let base = cell
            .get_or_try_init(|| async {
                let sources = self.settings.environment.program_sources();
                let progress = |line: &str| self.observer.notice(line);
                let program = agent.program(&sources, &progress).await?;
                let base = self.backend.prepare(&program, &progress).await?;
                let bundle = self.backend.base_file(&base, SYSTEM_BUNDLE).await?;
                Ok(PreparedBase { base, bundle })
            })
            .await?;
        Ok(base.clone())
    }

    /// Checks once in a session that the agent's program is the version that was asked for, unless that is known of the image.
    pub(crate) async fn check_agent_version(&self, run: &Run) -> Result<()> {
        let agent = run.agent();
        let Some(command) = agent.version_command() else { return Ok(()) };
        let cell = cell_of(&self.versions, &agent);
        let check = || async {
            let base = self.base_of(&agent).await?.base;
            let fact = format!("version {} {}", agent.name(), agent.version());
            if self.backend.was_checked(&base, &fact) {
                return Ok(agent.version().to_owned());
            }
            let version = run.version(command).await?;
            self.backend.checked(&base, &fact);
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

/// Removes what dead sessions of redroom left behind, on whichever backend answers; live ones are left alone. Every session
/// does this at its start.
///
/// # Errors
///
/// As [`Redroom::start`].
pub async fn sweep() -> Result<Swept> {
    crate::backend::choose(BackendChoice::Auto).await?.sweep().await
}

type Cells<T> = Mutex<HashMap<String, Arc<OnceCell<T>>>>;

fn cell_of<T>(cells: &Cells<T>, agent: &Arc<dyn Agent>) -> Arc<OnceCell<T>> {
    let key = format!("{} {}", agent.name(), agent.version());
    cells.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
}

impl std::fmt::Debug for Redroom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redroom").field("session", &self.0.id).finish_non_exhaustive()
    }
}
