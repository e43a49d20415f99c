//! A slot: a network that a keeper of ours holds, and the sidecar on the sockets that were made in there.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use redroom_sidecar::{Lease, Listeners};
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ahead::Helpers;
use super::channel::{self, Channel};
use super::held::Holder;
use super::inside::ARGUMENT;
use super::protocol::{FromKeeper, ToKeeper};
use super::sandbox::{self, Resident};
use super::{Programs, explained};
use crate::backend::{OpenSlot, Sandbox, SandboxSpec, Slot, SlotSpec};
use crate::error::{By, Error, Result, chain};

/// How long a keeper may take to make its network.
const PATIENCE: Duration = Duration::from_secs(20);
/// What of the sidecar's words is on its way to the harness, and back.
const LINK_ROOM: usize = 64 * 1024;
const LAST_WORDS: usize = 16 * 1024;

/// A live slot.
pub(super) struct JailSlot {
    helpers: Arc<Helpers>,
    programs: Arc<Programs>,
    words: Words,
    ending: CancellationToken,
    tasks: TaskTracker,
    session: SessionSlots,
}

/// The slots of one session, so that they can be ended together.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionSlots {
    ending: CancellationToken,
    tasks: TaskTracker,
}

impl SessionSlots {
    /// Ends every slot of the session, and waits until it is gone.
    pub(super) async fn end(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// What has to be done before the session has ended.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}

/// Opens a slot.
pub(super) async fn open(
    spec: SlotSpec,
    resident: Resident,
    programs: Arc<Programs>,
    holder: Holder,
    session: SessionSlots,
) -> Result<OpenSlot> {
    let words = Words::default();
    let (mut keeper, channel) = start_keeper().map_err(|error| cannot("start a slot's keeper", &error))?;
    let ending = session.ending.child_token();
    let tasks = TaskTracker::new();
    if let Some(stderr) = keeper.stderr.take() {
        tasks.spawn(session.tasks.track_future(listen(stderr, words.clone())));
    }
    let sockets = match timeout(PATIENCE, open_network(&channel, resident, spec.lease)).await {
        Ok(Ok(sockets)) => sockets,
        Ok(Err(error)) => return Err(with_words(error, &words)),
        Err(_) => return Err(with_words(cannot("open a slot", &io::ErrorKind::TimedOut.into()), &words)),
    };
    let listeners = Listeners::from_sockets(sockets)
        .map_err(|error| Error::backend("slot_failed", format!("a slot's sockets cannot be used: {error}")))?;
    let (near, far) = duplex(LINK_ROOM);
    serve(spec.number, listeners, far, words.clone(), ending.clone())
        .map_err(|error| cannot("start a slot's sidecar", &error))?;
    let channel = Arc::new(channel);
    tasks.spawn(session.tasks.track_future(renew(channel.clone(), spec.lease, ending.clone())));
    let helpers = Helpers::new(channel, resident, holder, ending.clone());
    tasks.spawn(session.tasks.track_future(keep(keeper, helpers.clone(), ending.clone())));
    tasks.close();
    let slot = JailSlot { helpers, programs, words, ending, tasks, session };
    Ok(OpenSlot { slot: Box::new(slot), link: Box::new(near) })
}

#[async_trait]
impl Slot for JailSlot {
    async fn open_sandbox(&self, spec: SandboxSpec) -> Result<Box<dyn Sandbox>> {
        let program = self.programs.of(&spec.base);
        let spec = SandboxSpec { entries: [program.copies, spec.entries].concat(), ..spec };
        let limits = spec.limits.clone();
        let opened = async { sandbox::open(self.helpers.take(&limits).await?, &program.files, spec).await };
        let sandbox = opened.await.map_err(|error| with_words(error, &self.words))?;
        if sandbox.is_in_groups() {
            let helpers = self.helpers.clone();
            let ahead = async move { helpers.prepare(limits).await };
            self.tasks.spawn(self.session.tasks.track_future(ahead));
        }
        Ok(Box::new(sandbox))
    }

    fn last_words(&self) -> String {
        self.words.text()
    }

    async fn close(&self) -> Result<()> {
        self.ending.cancel();
        self.tasks.wait().await;
        Ok(())
    }
}

impl Drop for JailSlot {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}

/// Starts this executable again. It gets nothing of ours but a socket, and ends with that.
fn start_keeper() -> io::Result<(Child, Channel)> {
    let (ours, theirs) = channel::pair()?;
    // Also there after the file has been built anew under the running program.
    let keeper = Command::new("/proc/self/exe")
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // What stops this process from a terminal does not stop the one that ends the slot when its lease is over.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok((keeper, Channel::new(ours)?))
}

async fn open_network(keeper: &Channel, resident: Resident, lease: Lease) -> Result<Vec<OwnedFd>> {
    let failed = |error: io::Error| cannot("reach a slot's keeper", &error);
    let open = ToKeeper::Open { privileged: resident.is_privileged(), silence: lease.end() };
    keeper.send(&open, &[]).await.map_err(failed)?;
    match keeper.receive().await.map_err(failed)? {
        Some((FromKeeper::Opened, sockets)) => Ok(sockets),
        Some((FromKeeper::Refused(refused), _)) => Err(explained(&refused, resident)),
        None => Err(Error::backend("slot_failed", "a slot's keeper ended")),
    }
}

/// The sidecar, on a thread of its own: a test that blocks its own threads does not keep it from answering, and a busy slot does not
/// keep another from it.
fn serve(
    number: u32,
    listeners: Listeners,
    link: DuplexStream,
    words: Words,
    ending: CancellationToken,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = move || {
        let served = runtime.block_on(ending.run_until_cancelled(redroom_sidecar::serve(listeners, link)));
        if let Some(Err(error)) = served {
            words.add(format!("the sidecar ended: {}\n", chain(&error)).as_bytes());
        }
        runtime.shutdown_background();
    };
    thread::Builder::new().name(format!("redroom-slot-{number}")).spawn(serve).map(drop)
}

/// Lives as long as the keeper, and ends it with the slot, or the slot with it.
async fn keep(mut keeper: Child, helpers: Arc<Helpers>, ending: CancellationToken) {
    tokio::select! {
        // The network is still there, but nobody can move in any more.
        _ = keeper.wait() => ending.cancel(),
        () = ending.cancelled() => {
            if let Err(error) = keeper.kill().await {
                tracing::warn!(%error, "a slot's keeper could not be ended");
            }
        }
    }
    helpers.dismiss().await;
}

/// Tells the keeper that this process lives, as often as its lease says.
async fn renew(keeper: Arc<Channel>, lease: Lease, ending: CancellationToken) {
    let mut renewals = tokio::time::interval(lease.renewal());
    renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while ending.run_until_cancelled(renewals.tick()).await.is_some() {
        // One that has no room for it has signs of life enough; one that is gone has ended the slot.
        let _ = keeper.try_send(&ToKeeper::Renew);
    }
}

async fn listen(mut stderr: ChildStderr, words: Words) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        words.add(&chunk[..read]);
    }
}

/// The end of what the helpers of a slot said on standard error.
#[derive(Clone, Debug, Default)]
struct Words(Arc<Mutex<VecDeque<u8>>>);

impl Words {
    fn add(&self, words: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&words[words.len().saturating_sub(LAST_WORDS)..]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }

    fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

fn with_words(error: Error, words: &Words) -> Error {
    match words.text().trim() {
        "" => error,
        words => error.map_detail(|detail| format!("{detail}; its last words: {words}")),
    }
}

fn cannot(what: &str, error: &io::Error) -> Error {
    Error::new(By::Backend, "slot_failed", format!("cannot {what}: {error}"))
}
