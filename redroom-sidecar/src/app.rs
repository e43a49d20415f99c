//! The sidecar as a whole: what serves a slot from its sockets and its link.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::door::{self, Connection, Doors};
use crate::link::Link;
use crate::listen::Listeners;
use crate::reports::Reports;
use crate::slot::{MODEL_REQUESTS, Slot};
use crate::wire::frame::FrameError;
use crate::wire::{Report, VERSION};
use crate::{dns, hook, relay, session, web};

/// Connections to the fake web at once. Each kind of door has a limit of its own, so that none can be starved through
/// another.
const WEB_PLACES: usize = 128;
const OTHER_PLACES: usize = 128;
const DNS_PLACES: usize = 64;
const HOOK_PLACES: usize = 64;

/// Why a sidecar ended before the harness ended it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The link to the harness is lost.
    #[error("the link to the harness is lost")]
    LinkLost(#[source] hyper::Error),
    /// The link ended without a word.
    #[error("the link to the harness ended")]
    LinkEnded,
    /// The harness does not take this sidecar's session.
    #[error("the harness refused the session with status {0}")]
    Refused(u16),
    /// What the harness sent is no command.
    #[error("the harness sent what is no command")]
    Frame(#[from] FrameError),
    /// The harness gave a command at the wrong time.
    #[error("the harness asked for the {0}")]
    Command(&'static str),
    /// A socket cannot be served.
    #[error("a socket of the slot cannot be served")]
    Socket(#[source] io::Error),
}

/// Serves a slot until the harness ends the session, or the link is lost; then nothing of it runs on.
///
/// `listeners` are the slot's sockets, `link` is the byte stream on which [`crate::wire`] is spoken.
pub async fn serve<L>(listeners: Listeners, link: L) -> Result<(), ServeError>
where
    L: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (link, connection) = Link::open(link).await.map_err(ServeError::LinkLost)?;
    let (reports, queue) = Reports::new();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let slot = Arc::new(Slot::new(reports, link, stop));

    // The sockets are bound; before anybody is let in, the harness is told.
    let other_ports_unseen = listeners.other_ports_unseen();
    slot.reports.send(Report::Ready { version: VERSION, other_ports_unseen }).await;
    let mut keepers = Keepers { slot: slot.clone(), doors: Doors::default(), loops: JoinSet::new() };
    keepers.open(listeners.http.into_iter().chain(listeners.https), WEB_PLACES, web::serve);
    keepers.open(listeners.other_tcp, OTHER_PLACES, web::serve_other_port);
    keepers.open(listeners.dns_tcp, DNS_PLACES, dns::stream::serve);
    keepers.open(listeners.relay, MODEL_REQUESTS, relay::serve);
    keepers.open(listeners.hook, HOOK_PLACES, hook::serve);
    for socket in listeners.dns_udp {
        let requests = keepers.doors.add();
        keepers.loops.spawn(dns::datagrams::keep(socket, requests, slot.clone()));
    }
    #[cfg(target_os = "linux")]
    for socket in listeners.other_udp {
        let requests = keepers.doors.add();
        keepers.loops.spawn(crate::unanswered::keep(socket, requests, slot.clone()));
    }

    tokio::select! {
        ended = session::run(&slot, &keepers.doors, queue) => ended,
        ended = connection => Err(ended.map_or_else(ServeError::LinkLost, |()| ServeError::LinkEnded)),
        error = first_fault(&mut keepers.loops) => Err(ServeError::Socket(error)),
    }
}

/// The loops that keep the slot's doors.
struct Keepers {
    slot: Arc<Slot>,
    doors: Doors,
    loops: JoinSet<io::Result<()>>,
}

impl Keepers {
    /// Opens doors that share a number of places.
    fn open<S, F>(&mut self, listeners: impl IntoIterator<Item = TcpListener>, places: usize, serve: S)
    where
        S: Fn(Arc<Slot>, Connection) -> F + Copy + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(places));
        for listener in listeners {
            let requests = self.doors.add();
            self.loops.spawn(door::keep(listener, places.clone(), requests, self.slot.clone(), serve));
        }
    }
}

/// Doors are kept as long as the sidecar lives, unless their sockets fail.
async fn first_fault(loops: &mut JoinSet<io::Result<()>>) -> io::Error {
    loop {
        match loops.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error,
            Some(Err(panic)) => return io::Error::other(panic),
            None => std::future::pending().await,
        }
    }
}
