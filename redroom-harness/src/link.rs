//! The harness's end of the stream to a sidecar: an HTTP/2 server that is told what happens and is asked for model answers
//! and guard decisions. What comes over it is hostile: bounded, parsed, or the link is lost.
//!
//! It knows one tenant at a time. A report of another generation is credited to nobody's run.

mod serve;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::wire::{self, Command, Generation, Hit, ModelRequest, Report, Scenario, frame};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::backend::Duplex;
use crate::error::{By, Error, Result};
use crate::evidence::held;
use crate::model::{Body, ModelCall};

/// How long a sidecar may take for an answer to a command (the figure that the reference tool used: 30 s).
const PATIENCE: Duration = Duration::from_secs(30);

/// Whoever lives in the slot at the moment: is told what its agent did, and asked.
#[async_trait]
pub(crate) trait Tenant: Send + Sync {
    /// A hit, or more of one.
    fn hit(&self, hit: Hit);

    /// A model request, or more of one.
    fn model_request(&self, request: ModelRequest);

    /// The sidecar could not do a part of its work.
    fn fault(&self, error: Error);

    /// Answers a model request.
    async fn model(&self, number: u64, call: ModelCall) -> http::Response<Body>;

    /// Answers the agent's hook.
    async fn hook(&self, payload: Bytes) -> Bytes;

    /// The run's id, for the upstreams.
    fn run(&self) -> &str;
}

/// Takes hits that fit no run.
pub(crate) type Unattributed = Arc<dyn Fn(Hit) + Send + Sync>;

/// A live stream to a sidecar.
pub(crate) struct Link {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Bytes>,
    progress: watch::Receiver<Progress>,
    _server: AbortOnDropHandle<()>,
}

/// How far the sidecar has come.
#[derive(Clone, Debug, Default, PartialEq)]
struct Progress {
    ready: bool,
    other_ports_unseen: Option<String>,
    begun: Option<Generation>,
    drained: Option<(Generation, u32)>,
    lost: Option<String>,
}

struct Shared {
    tenant: Mutex<Option<(Generation, Arc<dyn Tenant>)>>,
    unattributed: Unattributed,
    progress: watch::Sender<Progress>,
}

impl Link {
    /// Takes up the stream and waits until the sidecar is ready.
    pub(crate) async fn open(stream: Box<dyn Duplex>, unattributed: Unattributed) -> Result<Self> {
        let (progress_sender, progress) = watch::channel(Progress::default());
        let shared = Arc::new(Shared { tenant: Mutex::default(), unattributed, progress: progress_sender });
        // A command waits for its answer before the next is given: the queue never holds more than a few.
        let (commands, command_queue) = mpsc::channel(4);
        let server = tokio::spawn(serve::serve(stream, shared.clone(), command_queue));
        let link = Link { shared, commands, progress, _server: AbortOnDropHandle::new(server) };
        link.reach("start", PATIENCE, |progress| progress.ready).await?;
        if let Some(why) = link.other_ports_unseen() {
            tracing::warn!(why, "connections to other ports than 80, 443 and 53 leave no hit here");
        }
        Ok(link)
    }

    /// Why connections and datagrams to other ports leave no hit here, if so.
    pub(crate) fn other_ports_unseen(&self) -> Option<String> {
        self.progress.borrow().other_ports_unseen.clone()
    }

    /// A run moves in.
    pub(crate) async fn begin(
        &self,
        generation: Generation,
        scenario: Scenario,
        tenant: Arc<dyn Tenant>,
    ) -> Result<()> {
        self.shared.set_tenant(Some((generation, tenant)));
        self.command(&Command::Begin { generation, scenario: Box::new(scenario) }).await?;
        self.reach("take a run in", PATIENCE, |progress| progress.begun == Some(generation)).await.map(drop)
    }

    /// A run's processes are gone: waits until nothing of it is left in any socket, then it is no tenant any more. Gives the
    /// number of connections that had to be cut.
    pub(crate) async fn end(&self, generation: Generation, patience: Duration) -> Result<u32> {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let drained = |progress: &Progress| progress.drained.is_some_and(|(drained, _)| drained == generation);
        let ended = async {
            self.command(&Command::End { generation, patience_ms }).await?;
            let progress = self.reach("drain its sockets", patience + PATIENCE, drained).await?;
            Ok(progress.drained.map_or(0, |(_, cut)| cut))
        }
        .await;
        self.shared.set_tenant(None);
        ended
    }

    /// Ends when the stream is lost, and says why.
    pub(crate) fn watch(&self) -> impl Future<Output = String> + Send + use<> {
        let mut progress = self.progress.clone();
        async move {
            match progress.wait_for(|progress| progress.lost.is_some()).await {
                Ok(progress) => progress.lost.clone().unwrap_or_default(),
                Err(_) => "its task has ended".to_owned(),
            }
        }
    }

    /// Whether the stream still stands.
    pub(crate) fn alive(&self) -> bool {
        self.progress.borrow().lost.is_none() && self.progress.has_changed().is_ok()
    }

    async fn command(&self, command: &Command) -> Result<()> {
        let frame = frame::encode(command).map_err(|error| {
            Error::redroom("scenario_too_large", format!("a run's scenario cannot be sent: {error}"))
        })?;
        if frame.len() > frame::COMMAND_LIMIT {
            return Err(Error::redroom(
                "scenario_too_large",
                format!(
                    "the run's pages and secrets weigh {} bytes; {} is the most",
                    frame.len(),
                    frame::COMMAND_LIMIT
                ),
            ));
        }
        self.commands.send(frame).await.map_err(|_| self.lost_error())
    }

    async fn reach(&self, what: &str, patience: Duration, done: impl Fn(&Progress) -> bool) -> Result<Progress> {
        let mut progress = self.progress.clone();
        let waited = progress.wait_for(|progress| progress.lost.is_some() || done(progress));
        match tokio::time::timeout(patience, waited).await {
            Ok(Ok(progress)) if done(&progress) => Ok(progress.clone()),
            Ok(_) => Err(self.lost_error()),
            Err(_) => Err(Error::new(
                By::Sidecar,
                "sidecar_timeout",
                format!("the sidecar did not {what} within {} s", patience.as_secs()),
            )),
        }
    }

    fn lost_error(&self) -> Error {
        let why = self.progress.borrow().lost.clone().unwrap_or_else(|| "its task has ended".to_owned());
        Error::new(By::Sidecar, "sidecar_lost", format!("the stream to the sidecar was lost: {why}"))
    }
}

// === impl Shared ===

impl Shared {
    fn tenant(&self, generation: Option<Generation>) -> Option<Arc<dyn Tenant>> {
        let tenant = self.tenant.lock().unwrap_or_else(PoisonError::into_inner);
        tenant.as_ref().filter(|(current, _)| Some(*current) == generation).map(|(_, tenant)| tenant.clone())
    }

    fn set_tenant(&self, tenant: Option<(Generation, Arc<dyn Tenant>)>) {
        *self.tenant.lock().unwrap_or_else(PoisonError::into_inner) = tenant;
    }

    fn lose(&self, why: impl Into<String>) {
        self.progress.send_if_modified(|progress| {
            let first = progress.lost.is_none();
            progress.lost.get_or_insert_with(|| why.into());
            first
        });
    }

    /// Takes a report. `Err`: it breaks the protocol, and the link with it.
    fn report(&self, report: Report) -> std::result::Result<(), String> {
        match report {
            Report::Ready { version: wire::VERSION, other_ports_unseen } => {
                self.progress.send_modify(|progress| {
                    progress.ready = true;
                    // The sidecar's words: bounded before they are kept.
                    progress.other_ports_unseen = other_ports_unseen.map(|why| why.chars().take(500).collect());
                });
            }
            Report::Ready { version, .. } => return Err(format!("it speaks version {version} of the protocol")),
            Report::Begun { generation } => self.progress.send_modify(|progress| progress.begun = Some(generation)),
            Report::Drained { generation, cut } => {
                self.progress.send_modify(|progress| progress.drained = Some((generation, cut)));
            }
            Report::Hit { generation, hit } => match self.tenant(generation) {
                Some(tenant) => tenant.hit(*hit),
                None => (self.unattributed)(*hit),
            },
            Report::ModelRequest { generation, request } => match self.tenant(generation) {
                Some(tenant) => tenant.model_request(*request),
                None => tracing::warn!(id = request.id, "a model request that fits no run was refused"),
            },
            Report::Fault { generation, code, detail } => {
                // Both are the sidecar's words: bounded before they are kept.
                let code: String = code.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').take(40).collect();
                let error = Error::new(By::Sidecar, code, detail.chars().take(2_000).collect::<String>());
                if error.code() == "scenario_refused" {
                    return Err(error.to_string());
                }
                match self.tenant(generation) {
                    Some(tenant) => tenant.fault(error),
                    None => tracing::warn!(error = %held::everything().error(error), "a sidecar's fault"),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_that_cannot_see_other_ports_says_why() {
        let mut listeners = redroom_sidecar::Listeners::default();
        listeners.http.push(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let (near, far) = tokio::io::duplex(64 * 1024);
        let sidecar = AbortOnDropHandle::new(tokio::spawn(redroom_sidecar::serve(listeners, near)));
        let link = Link::open(Box::new(far), Arc::new(|_| {})).await.unwrap();
        let why = link.other_ports_unseen().expect("nothing is redirected here");
        assert!(why.contains("nft_tproxy"), "{why}");
        drop(sidecar);
    }
}
