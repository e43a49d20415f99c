//! The jail backend: Linux namespaces, no engine, nothing to install.
//!
//! A slot is a network namespace that a keeper of ours holds, with the sidecar in this very process on sockets that were made in
//! there; a sandbox is a process in namespaces of its own beside that network. Helpers are this executable, started again
//! (`inside`); the root is planned here (`layout`), built in there; files go in and evidence comes out through descriptors (`tree`).
//!
//! Nothing here knows what is in a page, a secret or a model's answer.

mod ahead;
mod channel;
mod exec;
mod held;
mod inside;
mod layout;
mod limits;
mod making;
mod process;
mod programs;
mod protocol;
mod refusal;
mod sandbox;
mod slot;
mod sys;
pub(crate) mod tree;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redroom_sidecar::Lease;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::spawn_blocking;

pub(crate) use inside::live_if_asked;

use self::held::Holder;
use self::layout::Machine;
use self::limits::Hierarchies;
use self::programs::Programs;
use self::refusal::{StepFailure, ThisSystem};
use self::sandbox::Resident;
use self::slot::SessionSlots;
use self::sys::Refused;
use crate::backend::session::{Life, Session, SessionLocks};
use crate::backend::{
    Backend, BackendFacts, Base, OpenSlot, Program, Progress, SandboxLimits, SandboxSpec, SlotSpec, Swept,
};
use crate::error::{Error, Result};
use crate::run_folder::RunFolder;
use crate::slot::MAX_PARALLEL;

/// The most that a file of this machine may weigh to be read.
const BASE_FILE_LIMIT: u64 = 16 * 1024 * 1024;

/// This machine's kernel as a backend.
pub struct Jail {
    why: String,
    privileged: bool,
    programs: Arc<Programs>,
    hierarchies: Arc<Hierarchies>,
    locks: SessionLocks,
    sessions: Mutex<HashMap<String, (Session, SessionSlots)>>,
}

impl Jail {
    /// Makes a jail and takes it down again, so that whatever this system refuses is known before anything depends on it. `why` says
    /// why this backend was chosen.
    ///
    /// # Errors
    ///
    /// `jail_unavailable` with the step that was refused and what to do; `runtime_unsuitable` outside of a multi-thread runtime.
    pub async fn open(why: impl Into<String>) -> Result<Self> {
        let jail = Self::unproved(why)?;
        let session = uuid::Uuid::new_v4().to_string();
        let base = jail.programs.keep(&Program::default())?;
        // Of no slot that there can be: nobody else has its user.
        let opened = jail
            .open_slot(SlotSpec { session: session.clone(), number: MAX_PARALLEL, lease: Lease::default() })
            .await?;
        let limits = SandboxLimits { cpus: 1.0, memory: 64 << 20, pids: 16, file_size: 1 << 20, open_files: 64 };
        let spec = SandboxSpec { run: session.clone(), base, limits, env: Vec::new(), entries: Vec::new() };
        let made = async { opened.slot.open_sandbox(spec).await?.remove().await }.await;
        jail.end_session(&session).await?;
        made.map(|()| jail)
    }

    pub(super) fn unproved(why: impl Into<String>) -> Result<Self> {
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            let detail = "redroom needs a multi-thread runtime: write #[tokio::test(flavor = \"multi_thread\")]";
            return Err(Error::redroom("runtime_unsuitable", detail));
        }
        allow_many_files();
        Ok(Jail {
            why: why.into(),
            privileged: is_privileged(),
            programs: Arc::default(),
            hierarchies: Arc::new(Hierarchies::of_this_process()),
            locks: SessionLocks::open(&RunFolder::open()?)?,
            sessions: Mutex::default(),
        })
    }

    /// The slots of a session, which is marked as live from its first one to its end.
    fn session(&self, spec: &SlotSpec) -> Result<SessionSlots> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slots)) = sessions.get(&spec.session) {
            return Ok(slots.clone());
        }
        let slots = SessionSlots::default();
        sessions.insert(spec.session.clone(), (self.locks.hold(&spec.session, spec.lease)?, slots.clone()));
        Ok(slots)
    }
}

#[async_trait]
impl Backend for Jail {
    fn facts(&self) -> BackendFacts {
        BackendFacts { name: "jail".to_owned(), isolated: true, why: self.why.clone() }
    }

    async fn prepare(&self, program: &Program, _progress: Progress<'_>) -> Result<Base> {
        program.check()?;
        self.programs.keep(program)
    }

    async fn base_file(&self, _base: &Base, path: &str) -> Result<Option<Vec<u8>>> {
        let Some(source) = layout::base_file(&Machine, path) else { return Ok(None) };
        let mut content = Vec::new();
        let read = File::open(&source).and_then(|file| file.take(BASE_FILE_LIMIT + 1).read_to_end(&mut content));
        match read {
            Ok(_) if content.len() as u64 > BASE_FILE_LIMIT => Err(Error::redroom(
                "read_output_too_large",
                format!("{source} has more than the {BASE_FILE_LIMIT} bytes that are read"),
            )),
            Ok(_) => Ok(Some(content)),
            Err(error) => Err(Error::backend("read_failed", format!("cannot read {source}: {error}"))),
        }
    }

    async fn open_slot(&self, spec: SlotSpec) -> Result<OpenSlot> {
        let session = self.session(&spec)?;
        let resident = Resident::of_slot(spec.number, self.privileged);
        let holder = Holder::new(&spec.session, self.hierarchies.clone(), session.tasks().clone());
        slot::open(spec, resident, self.programs.clone(), holder, session).await
    }

    /// Nothing of a jail outlives the process that made it but its control groups.
    async fn sweep(&self) -> Result<Swept> {
        let locks = self.locks.clone();
        let hierarchies = self.hierarchies.clone();
        let sweep = spawn_blocking(move || limits::sweep(&hierarchies, |session| locks.life(session)));
        let groups = sweep.await.map_err(|error| Error::backend("sweep_failed", error.to_string()))?;
        self.locks.tidy();
        Ok(Swept { groups, ..Swept::default() })
    }

    async fn end_session(&self, session: &str) -> Result<()> {
        let ended = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        let Some((_lock, slots)) = ended else { return Ok(()) };
        slots.end().await;
        // Whoever has a sandbox still, as a test that is interrupted has, will not let go of it any more.
        let (hierarchies, own) = (self.hierarchies.clone(), session.to_owned());
        let life = move |session: &str| if session == own { Life::Dead } else { Life::Lives };
        let sweep = spawn_blocking(move || limits::sweep(&hierarchies, life));
        sweep.await.map(drop).map_err(|error| Error::backend("sweep_failed", error.to_string()))
    }
}

/// Why a step was refused, and what can be done.
fn explained(refused: &Refused, resident: Resident) -> Error {
    let Refused { step, errno, detail } = refused;
    let failure = StepFailure { step, errno: *errno, detail, privileged: resident.is_privileged() };
    refusal::refused(failure, &ThisSystem)
}

/// Whether this process may make namespaces as it is, and be anybody in them. Being root is not enough: a container's root may not.
fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// The sidecars of all slots are in this process, with hundreds of connections each: more than the usual soft limit.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        if let Err(error) = raised {
            tracing::warn!(%error, "the limit on open files could not be raised; many connections at once may fail");
        }
    }
}
