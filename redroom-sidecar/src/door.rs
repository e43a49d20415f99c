//! A door: one listener, its limit, and the loop that accepts. A door can be emptied: everything that the kernel has in
//! its queue is taken in before the answer comes.

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::losses::LostConnections;
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::OTHER_PORTS_ADDRESSES;

/// How long a door rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(10);

/// A connection, and what is known of it before a byte is read.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The address and port that the client meant.
    pub(crate) meant: SocketAddr,
    /// Who lived here when it was accepted.
    pub(crate) tenant: Arc<Tenant>,
    /// Held as long as the connection is.
    pub(crate) place: OwnedSemaphorePermit,
}

/// Asks that a queue be emptied, and is told when it was.
pub(crate) type EmptyRequest = oneshot::Sender<()>;

/// All doors of a slot, to be emptied together.
#[derive(Default)]
pub(crate) struct Doors(Vec<mpsc::Sender<EmptyRequest>>);

impl Doors {
    /// The end that a new door listens to.
    pub(crate) fn add(&mut self) -> mpsc::Receiver<EmptyRequest> {
        let (sender, receiver) = mpsc::channel(1);
        self.0.push(sender);
        receiver
    }

    /// Returns when every queue was seen empty.
    pub(crate) async fn empty(&self) {
        join_all(self.0.iter().map(|door| async {
            let (emptied, answer) = oneshot::channel();
            if door.send(emptied).await.is_ok() {
                // A door that is gone has nothing left to take in.
                let _ = answer.await;
            }
        }))
        .await;
    }
}

/// Accepts until the sidecar ends. A place is taken before a connection is, so that beyond the limit they wait in the
/// kernel's queue and cost nothing here.
pub(crate) async fn keep<F>(
    listener: std::net::TcpListener,
    places: Arc<Semaphore>,
    mut requests: mpsc::Receiver<EmptyRequest>,
    slot: Arc<Slot>,
    serve: impl Fn(Arc<Slot>, Connection) -> F,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    let mut lost = LostConnections::of(&listener);
    let mut emptying: Option<EmptyRequest> = None;
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let accepted = match emptying {
            None => tokio::select! {
                accepted = listener.accept() => accepted.map(|(stream, _)| stream),
                request = requests.recv() => match request {
                    Some(request) => {
                        emptying = Some(request);
                        continue;
                    }
                    None => return Ok(()),
                },
            },
            // The kernel's queue itself is asked, not the runtime, whose knowledge of it can lag behind.
            Some(_) => SockRef::from(&listener).accept().and_then(|(socket, _)| {
                socket.set_nonblocking(true)?;
                TcpStream::from_std(socket.into())
            }),
        };
        match accepted {
            Ok(stream) => {
                lost.look(&listener);
                let meant = stream.local_addr().unwrap_or(address);
                // What is sent as urgent would be kept out of what is read.
                let _ = SockRef::from(&stream).set_out_of_band_inline(true);
                let tenant = slot.tenant();
                let connection = Connection { stream, meant, tenant: tenant.clone(), place };
                slot.spawn(&tenant, serve(slot.clone(), connection));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Some(request) = emptying.take() {
                    lost.tell(&listener, &slot, &place_of(address)).await;
                    let _ = request.send(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Out of descriptors or memory: some will be given back.
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// What an agent knows of where a door is.
fn place_of(address: SocketAddr) -> String {
    if OTHER_PORTS_ADDRESSES.contains(&address) { "other ports".to_owned() } else { format!("port {}", address.port()) }
}
