//! The harness's end of the stream to a sidecar: an HTTP/2 server that is told what happens and is asked for model answers
//! and guard decisions. What comes over it is hostile: bounded, parsed, or the link is lost.
//!
//! It knows one tenant at a time. A report of another generation is credited to nobody's run.

mod serve;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::Lease;
use redroom_sidecar::wire::{self, Command, Generation, Hit, ModelRequest, Report, Scenario, frame};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use crate::backend::Duplex;
use crate::error::{By, Error, Result};
use crate::evidence::held;
use crate::model::{Body, ModelCall};
#[cfg(any(test, redroom_fuzzing))]
pub(crate) use serve::Reports;

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
    _renewal: AbortOnDropHandle<()>,
}

/// Why a stream to a sidecar is lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loss {
    /// It broke.
    Broken(String),
    /// This process gave no sign of life for longer than its lease: what it had has ended, or is about to.
    LeaseOver {
        /// How long it hung.
        silent: Duration,
        lease: Lease,
    },
}

impl Loss {
    /// The error of whoever depended on it.
    pub(crate) fn error(&self) -> Error {
        match self {
            Loss::Broken(why) => {
                Error::new(By::Sidecar, "sidecar_lost", format!("the stream to the sidecar was lost: {why}"))
            }
            Loss::LeaseOver { silent, lease } => Error::redroom(
                "lease_over",
                format!(
                    "this process hung for {:.1} s, longer than its lease of {} s, and what it had ended by itself: it was \
                     stopped, in a debugger, or had no processor; give it a longer one with `Suite::lease`, or run it again",
                    silent.as_secs_f64(),
                    lease.length().as_secs_f64()
                ),
            ),
        }
    }
}

/// How far the sidecar has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    ready: bool,
    pub(crate) other_ports_unseen: Option<String>,
    begun: Option<Generation>,
    drained: Option<(Generation, u32)>,
    lost: Option<Loss>,
}

pub(crate) struct Shared {
    tenant: Mutex<Option<(Generation, Arc<dyn Tenant>)>>,
    unattributed: Unattributed,
    progress: watch::Sender<Progress>,
    lease: Lease,
    /// When this process last gave a sign of life.
    renewed: Mutex<Instant>,
}

impl Link {
    /// Takes up the stream and waits until the sidecar is ready.
    pub(crate) async fn open(stream: Box<dyn Duplex>, lease: Lease, unattributed: Unattributed) -> Result<Self> {
        let (shared, progress) = Shared::new(lease, unattributed);
        let shared = Arc::new(shared);
        // A command waits for its answer before the next is given: the queue never holds more than a few.
        let (commands, command_queue) = mpsc::channel(4);
        let server = tokio::spawn(serve::serve(stream, shared.clone(), command_queue));
        let renewal = tokio::spawn(renew(shared.clone(), commands.clone()));
        let (server, renewal) = (AbortOnDropHandle::new(server), AbortOnDropHandle::new(renewal));
        let link = Link { shared, commands, progress, _server: server, _renewal: renewal };
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
    pub(crate) fn watch(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut progress = self.progress.clone();
        async move {
            match progress.wait_for(|progress| progress.lost.is_some()).await {
                Ok(progress) => progress.lost.clone().unwrap_or_else(ended),
                Err(_) => ended(),
            }
        }
    }

    /// The error of a process that hung for longer than its lease, if this one did: whatever else is seen of it comes from that.
    pub(crate) fn lease_over(&self) -> Option<Error> {
        if let Some(over) = self.shared.hung() {
            self.shared.lose_to(over);
        }
        let lost = self.progress.borrow().lost.clone();
        lost.filter(|loss| matches!(loss, Loss::LeaseOver { .. })).map(|loss| loss.error())
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
        self.progress.borrow().lost.clone().unwrap_or_else(ended).error()
    }
}

fn ended() -> Loss {
    Loss::Broken("its task has ended".to_owned())
}

/// Gives signs of life, as often as the lease wants them. A process that finds that it hung for longer takes the stream for lost at
/// once, whatever is left of it.
async fn renew(shared: Arc<Shared>, commands: mpsc::Sender<Bytes>) {
    let Ok(sign) = frame::encode(&Command::Renew) else { return };
    let mut renewals = tokio::time::interval(shared.lease.renewal());
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        renewals.tick().await;
        if let Some(over) = shared.hung() {
            return shared.lose_to(over);
        }
        *shared.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // A queue without room is full of signs of life.
        if let Err(mpsc::error::TrySendError::Closed(_)) = commands.try_send(sign.clone()) {
            return;
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(lease: Lease, unattributed: Unattributed) -> (Self, watch::Receiver<Progress>) {
        let (sender, progress) = watch::channel(Progress::default());
        let renewed = Mutex::new(Instant::now());
        (Shared { tenant: Mutex::default(), unattributed, progress: sender, lease, renewed }, progress)
    }

    fn tenant(&self, generation: Option<Generation>) -> Option<Arc<dyn Tenant>> {
        let tenant = self.tenant.lock().unwrap_or_else(PoisonError::into_inner);
        tenant.as_ref().filter(|(current, _)| Some(*current) == generation).map(|(_, tenant)| tenant.clone())
    }

    pub(crate) fn set_tenant(&self, tenant: Option<(Generation, Arc<dyn Tenant>)>) {
        *self.tenant.lock().unwrap_or_else(PoisonError::into_inner) = tenant;
    }

    fn lose(&self, why: impl Into<String>) {
        // A stream that ended while this process hung has ended because of that.
        self.lose_to(self.hung().unwrap_or_else(|| Loss::Broken(why.into())));
    }

    /// The first loss counts.
    fn lose_to(&self, loss: Loss) {
        self.progress.send_if_modified(|progress| {
            let first = progress.lost.is_none();
            progress.lost.get_or_insert(loss);
            first
        });
    }

    /// Whether this process has been silent for longer than its lease.
    fn hung(&self) -> Option<Loss> {
        let silent = self.renewed.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (silent > self.lease.length()).then_some(Loss::LeaseOver { silent, lease: self.lease })
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
    use futures_util::StreamExt;
    use http_body_util::{BodyExt, StreamBody};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    #[tokio::test]
    async fn a_slot_that_cannot_see_other_ports_says_why() {
        let mut listeners = redroom_sidecar::Listeners::default();
        listeners.http.push(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let (near, far) = tokio::io::duplex(64 * 1024);
        let sidecar = AbortOnDropHandle::new(tokio::spawn(redroom_sidecar::serve(listeners, near)));
        let link = Link::open(Box::new(far), Lease::default(), Arc::new(|_| {})).await.unwrap();
        let why = link.other_ports_unseen().expect("nothing is redirected here");
        assert!(why.contains("nft_tproxy"), "{why}");
        drop(sidecar);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sidecar_that_says_nothing_is_given_up_after_half_a_minute() {
        let (_silent, far) = tokio::io::duplex(64 * 1024);
        let asked = Instant::now();
        let error = Link::open(Box::new(far), Lease::default(), Arc::new(|_| {})).await.err().unwrap();
        assert_eq!((error.code(), error.by()), ("sidecar_timeout", By::Sidecar), "{error}");
        assert!(asked.elapsed() <= PATIENCE + Duration::from_secs(1), "{:?}", asked.elapsed());
    }

    /// A link whose sidecar reports that it is ready and then only takes what it is told, which is counted.
    async fn open(lease: Lease) -> (Link, tokio::task::JoinHandle<usize>) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let sidecar = tokio::spawn(async move {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
            tokio::spawn(connection);
            let ready = frame::encode(&Report::Ready { version: wire::VERSION, other_ports_unseen: None }).unwrap();
            let reports = futures_util::stream::iter([Ok::<_, std::io::Error>(hyper::body::Frame::data(ready))])
                .chain(futures_util::stream::pending());
            let request = http::Request::post("http://harness/session").body(StreamBody::new(Box::pin(reports)));
            let mut commands = sender.send_request(request.unwrap()).await.unwrap().into_body();
            let mut decoder = frame::Decoder::new(frame::COMMAND_LIMIT);
            let mut renewed = 0;
            while let Some(Ok(data)) = commands.frame().await {
                decoder.push(data.data_ref().unwrap());
                while let Some(command) = decoder.next_frame::<Command>().unwrap() {
                    renewed += usize::from(matches!(command, Command::Renew));
                }
            }
            renewed
        });
        (Link::open(Box::new(far), lease, Arc::new(|_| {})).await.unwrap(), sidecar)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_three_times_in_its_length() {
        let lease = Lease::default();
        let (link, sidecar) = open(lease).await;
        tokio::time::sleep(10 * lease.length() - Duration::from_secs(1)).await;
        assert!(link.alive() && link.lease_over().is_none());
        drop(link);
        assert_eq!(sidecar.await.unwrap(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_hung_for_longer_than_its_lease_says_so_and_nothing_else() {
        let lease = Lease::new(Duration::from_secs(30)).unwrap();
        let (link, sidecar) = open(lease).await;
        // Time goes by, and nothing of this runtime goes on.
        tokio::time::advance(lease.length() + Duration::from_millis(1)).await;
        sidecar.abort();
        let error = link.watch().await.error();
        assert_eq!((error.code(), error.by()), ("lease_over", By::Redroom), "{error}");
        assert!(error.detail().contains("30 s") && error.detail().contains("Suite::lease"), "{error}");
        assert_eq!(link.lease_over(), Some(error));
        assert!(!link.alive());
    }
}
