//! DNS over UDP. One socket hears every address, so the reply has to name the one that was meant as its source: else a
//! connected client never sees it.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::door::EmptyRequest;
use crate::losses::LostDatagrams;
use crate::slot::Slot;
use crate::wire::Transport;

/// The longest datagram.
const LONGEST: usize = 64 * 1024;

/// Answers until the sidecar ends.
pub(crate) async fn keep(
    socket: std::net::UdpSocket,
    mut requests: mpsc::Receiver<EmptyRequest>,
    slot: Arc<Slot>,
) -> io::Result<()> {
    let state = UdpSocketState::new((&socket).into())?;
    allow_foreign_sources(&socket);
    let local = socket.local_addr()?;
    let socket = UdpSocket::from_std(socket)?;
    let mut losses = LostDatagrams::of(&socket);
    let mut buffer = vec![0; LONGEST];
    let mut emptying: Option<EmptyRequest> = None;
    loop {
        if emptying.is_none() {
            tokio::select! {
                readable = socket.readable() => readable?,
                request = requests.recv() => match request {
                    Some(request) => emptying = Some(request),
                    None => return Ok(()),
                },
            }
        }
        let mut receive = || {
            let mut meta = [RecvMeta::default()];
            state.recv((&socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta).map(|_| meta[0])
        };
        // While it is emptied, the kernel's queue itself is asked: the runtime's knowledge of it can lag behind.
        let received = if emptying.is_some() { receive() } else { socket.try_io(Interest::READABLE, receive) };
        match received {
            Ok(meta) => {
                let meant = meta.dst_ip.map_or(local, |address| SocketAddr::new(address, local.port()));
                // A sender may have sent several datagrams as one.
                for message in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    answer(&slot, &state, &socket, meta.addr, meant, message).await;
                }
                if meta.len == 0 {
                    answer(&slot, &state, &socket, meta.addr, meant, &[]).await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Some(request) = emptying.take() {
                    losses.tell(&socket, &slot, "port 53").await;
                    let _ = request.send(());
                }
            }
            // An earlier reply found nobody, or the like: it concerns no datagram that is still here.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn answer(
    slot: &Slot,
    state: &UdpSocketState,
    socket: &UdpSocket,
    client: SocketAddr,
    meant: SocketAddr,
    message: &[u8],
) {
    let tenant = slot.tenant();
    let (_, reply) = super::reply(slot, &tenant, meant, Transport::Udp, message).await;
    let Some(reply) = reply else { return };
    let source = Some(meant.ip()).filter(|address| !address.is_unspecified());
    let transmit = Transmit { destination: client, ecn: None, contents: &reply, segment_size: None, src_ip: source };
    // A reply for which there is no room, or nobody, is lost, as datagrams are.
    let _ = state.try_send(socket.into(), &transmit);
}

/// IPv6 wants this for an answer from an address that was never given to an interface. IPv4 does not.
fn allow_foreign_sources(socket: &std::net::UdpSocket) {
    #[cfg(target_os = "linux")]
    if socket.local_addr().is_ok_and(|address| address.is_ipv6()) {
        let _ = rustix::net::sockopt::set_ipv6_freebind(socket, true);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}
