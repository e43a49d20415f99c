//! The docker backend: slots and sandboxes as containers of an engine, through its API alone.
//!
//! A slot is a container without a network, whose only inhabitant is a sidecar; a sandbox is a container in the slot's
//! namespace. Both live only as long as this process holds their standard input, whatever ends it.
//!
//! The only user of the Docker client library. Nothing here knows what is in a page, a secret or a model's answer.

mod collect;
mod container;
mod elf;
mod engine;
mod exec;
mod labels;
mod pack;
mod placement;
mod sandbox;
mod session;
mod slot;
mod untar;
mod upload;
mod waiter;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::runtime::{Handle, RuntimeFlavor};

use self::engine::Engine;
use self::pack::SidecarImage;
use self::session::{Session, SessionLocks};
use crate::backend::{Backend, BackendFacts, Base, OpenSlot, Program, Progress, SlotSpec, Swept};
use crate::error::{Error, Result};

/// The first argument of the running executable when it is started as a slot's sidecar: whoever uses this backend looks for
/// it first thing in `main`, and speaks [`redroom_sidecar::wire`] over standard input and output.
pub const SIDECAR_ARGUMENT: &str = "__redroom-sidecar";

/// A Docker engine as a backend.
pub struct Docker {
    engine: Engine,
    why: String,
    sidecar: SidecarImage,
    locks: SessionLocks,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl Docker {
    /// Connects to the engine that `DOCKER_HOST` names, else to the usual socket. `executable` is the running one: the one that
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
        let engine = Engine::connect().await?;
        Ok(Docker {
            engine,
            why: why.into(),
            sidecar: SidecarImage::of(executable),
            locks: SessionLocks::open()?,
            sessions: Mutex::new(HashMap::new()),
        })
    }

    /// The session, marked as live from its first slot to the end of this backend.
    fn session(&self, id: &str) -> Result<Arc<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(id) {
            return Ok(session.clone());
        }
        let session = Arc::new(self.locks.hold(id)?);
        sessions.insert(id.to_owned(), session.clone());
        Ok(session)
    }
}

#[async_trait]
impl Backend for Docker {
    fn facts(&self) -> BackendFacts {
        BackendFacts { name: format!("docker {}", self.engine.facts().version), isolated: true, why: self.why.clone() }
    }

    async fn prepare(&self, _program: &Program, _progress: Progress<'_>) -> Result<Base> {
        Ok(Base("redroom-trial-agent".to_owned()))
    }

    async fn open_slot(&self, spec: SlotSpec) -> Result<OpenSlot> {
        let session = self.session(&spec.session)?;
        slot::open(&self.engine, &self.sidecar, session, &spec).await
    }

    async fn sweep(&self) -> Result<Swept> {
        Ok(Swept::default())
    }
}
