//! The docker backend: slots and sandboxes as containers of an engine, through its API alone.
//!
//! A slot is a container without a network, whose only inhabitant is a sidecar; a sandbox is a container in the slot's
//! namespace. Both live only as long as this process holds their standard input, whatever ends it.
//!
//! The only user of the Docker client library. Nothing here knows what is in a page, a secret or a model's answer.

mod address;
pub(crate) mod collect;
mod connection;
mod container;
mod elf;
mod enforced;
mod engine;
mod exec;
mod image;
mod known;
mod labels;
mod pack;
mod placement;
mod prune;
mod sandbox;
mod slot;
mod storage;
mod sweep;
pub(crate) mod untar;
mod upload;
mod waiter;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use redroom_sidecar::Lease;
use tokio::runtime::{Handle, RuntimeFlavor};

use self::container::Container;
use self::engine::{Engine, Whereabouts, status};
use self::image::Images;
use self::known::Known;
use self::labels::{LOCKS, ROLE, Role, SESSION, container_name, labels};
use self::pack::SidecarImage;
use crate::backend::session::{Session, SessionLocks};
use crate::backend::{Backend, BackendFacts, Base, OpenSlot, Program, Progress, SlotSpec, Swept};
use crate::error::{Error, Result};
use crate::run_folder::RunFolder;

/// The first argument of the running executable when it is started as a slot's sidecar: whoever uses this backend looks for
/// it first thing in `main`, and speaks [`redroom_sidecar::wire`] over standard input and output.
pub const SIDECAR_ARGUMENT: &str = "__redroom-sidecar";

/// The most that a file of an image may weigh to be read.
const BASE_FILE_LIMIT: u64 = 16 * 1024 * 1024;
/// How often leftovers are looked for, however many processes start.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEPT: &str = "swept";

/// A Docker engine as a backend.
pub struct Docker {
    engine: Engine,
    why: String,
    folder: RunFolder,
    known: Known,
    sidecar: SidecarImage,
    locks: SessionLocks,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    base_files: Mutex<BaseFiles>,
}

/// What was read of bases, by base and path.
type BaseFiles = HashMap<(Base, String), Option<Vec<u8>>>;

impl Docker {
    /// Connects to the engine that `DOCKER_HOST` or the Docker context names, else to the usual socket. `executable` is the running one: the one that
    /// knows [`SIDECAR_ARGUMENT`]; `why` says why this backend was chosen.
    ///
    /// # Errors
    ///
    /// `docker_unavailable` with what was tried and what to do; `runtime_unsuitable` outside of a multi-thread runtime.
    pub async fn connect(executable: &Path, why: impl Into<String>) -> Result<Self> {
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            let detail = "redroom needs a multi-thread runtime: write #[tokio::test(flavor = \"multi_thread\")]";
            return Err(Error::redroom("runtime_unsuitable", detail));
        }
        let folder = RunFolder::open()?;
        let whereabouts = Whereabouts::find(&folder)?;
        let engine = Engine::connect(&whereabouts).await?;
        let known = whereabouts.known;
        Ok(Docker {
            engine,
            why: why.into(),
            sidecar: SidecarImage::of(executable, known.clone()),
            locks: SessionLocks::open(&folder)?,
            folder,
            known,
            sessions: Mutex::new(HashMap::new()),
            base_files: Mutex::new(HashMap::new()),
        })
    }

    /// Why there is none, in few words: of an error `docker_unavailable`.
    pub(super) fn absence(unavailable: &Error) -> &str {
        engine::in_short(unavailable)
    }

    /// The session, marked as live from its first slot to the end of this backend.
    fn session(&self, spec: &SlotSpec) -> Result<Arc<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(&spec.session) {
            return Ok(session.clone());
        }
        let session = Arc::new(self.locks.hold(&spec.session, spec.lease)?);
        sessions.insert(spec.session.clone(), session.clone());
        Ok(session)
    }

    /// Reads a file out of a container that is never started. It is a session of its own, so that it is known as dead when this process is.
    async fn peek(&self, base: &Base, path: &str) -> Result<Option<Vec<u8>>> {
        let session = self.locks.hold(&uuid::Uuid::new_v4().to_string(), Lease::default())?;
        let body = ContainerCreateBody {
            image: Some(base.0.clone()),
            cmd: Some(vec!["/".to_owned()]),
            labels: Some(labels([(SESSION, session.id()), (LOCKS, session.locks()), (ROLE, Role::Peek.word())])),
            ..Default::default()
        };
        let container = match Container::create(&self.engine, &container_name(session.id(), Role::Peek), body).await {
            Err(error) if status(&error) == Some(404) => {
                self.known.forget(&base.0);
                return Err(error);
            }
            made => made?,
        };
        let read = collect::read_file(&self.engine, &container.id, path, BASE_FILE_LIMIT).await;
        container.remove().await?;
        read
    }
}

#[async_trait]
impl Backend for Docker {
    fn facts(&self) -> BackendFacts {
        BackendFacts { name: format!("docker {}", self.engine.facts().version), isolated: true, why: self.why.clone() }
    }

    async fn prepare(&self, program: &Program, progress: Progress<'_>) -> Result<Base> {
        let images = Images { engine: &self.engine, known: &self.known, folder: &self.folder };
        images.prepare(program, progress).await
    }

    async fn base_file(&self, base: &Base, path: &str) -> Result<Option<Vec<u8>>> {
        let key = (base.clone(), path.to_owned());
        if let Some(content) = self.base_files.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(content.clone());
        }
        // Asked once for many processes, too: it takes a container.
        let question = format!("{} {path}", base.0);
        let content = match self.known.content(&question) {
            Some(content) => Some(content),
            None => {
                let content = self.peek(base, path).await?;
                if let Some(content) = &content {
                    self.known.keep_content(&question, content);
                }
                content
            }
        };
        self.base_files.lock().unwrap_or_else(PoisonError::into_inner).insert(key, content.clone());
        Ok(content)
    }

    fn was_checked(&self, base: &Base, fact: &str) -> bool {
        self.known.get(fact).is_some_and(|known| known == base.0)
    }

    fn checked(&self, base: &Base, fact: &str) {
        self.known.put(fact, &base.0);
    }

    async fn open_slot(&self, spec: SlotSpec) -> Result<OpenSlot> {
        let session = self.session(&spec)?;
        slot::open(&self.engine, &self.sidecar, session, &spec).await
    }

    async fn sweep(&self) -> Result<Swept> {
        // Said first: of many processes that start at once, one sweeps.
        self.known.put(SWEPT, "");
        let swept = sweep::sweep(&self.engine, &self.locks).await?;
        self.locks.tidy();
        Ok(swept)
    }

    async fn check(&self) -> Result<()> {
        self.engine.check().await
    }

    async fn end_session(&self, session: &str) -> Result<()> {
        sweep::end_session(&self.engine, session).await?;
        // Nothing of it is left to be swept. A file that stays makes every start look for leftovers, for a minute.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        Ok(())
    }

    async fn sweep_if_due(&self) -> Result<Swept> {
        match self.known.within(SWEPT, SWEEP_EVERY) {
            Some(_) if !self.locks.any_dead() => Ok(Swept::default()),
            _ => self.sweep().await,
        }
    }
}
