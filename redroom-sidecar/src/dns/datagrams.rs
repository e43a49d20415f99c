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
use crate::slot::Slot;
use crate::wire::{Report, Transport};

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
    let mut losses = Losses::of(&socket);
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
                    report(&slot, losses.since_last()).await;
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

/// Says how many datagrams were lost unread, if any were.
async fn report(slot: &Slot, lost: u64) {
    if lost > 0 {
        let code = "datagrams_lost".to_owned();
        let detail = format!(
            "{lost} datagrams to port 53 came faster than they could be read, and were lost: what they held was not searched"
        );
        slot.reports.send(Report::Fault { generation: slot.tenant().generation(), code, detail }).await;
    }
}

/// How many datagrams of a socket the kernel had no room for.
struct Losses {
    /// The socket's number in the kernel's tables; `None` where there are none.
    inode: Option<u64>,
    known: u64,
}

impl Losses {
    fn of(socket: &UdpSocket) -> Self {
        #[cfg(target_os = "linux")]
        let inode = rustix::fs::fstat(socket).ok().map(|facts| facts.st_ino);
        #[cfg(not(target_os = "linux"))]
        let inode = None;
        let mut losses = Losses { inode, known: 0 };
        losses.since_last();
        losses
    }

    /// Those since it was asked last.
    fn since_last(&mut self) -> u64 {
        let Some(inode) = self.inode else { return 0 };
        let tables =
            ["/proc/net/udp", "/proc/net/udp6"].into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
        let Some(lost) = tables.into_iter().find_map(|table| lost_of(&table, inode)) else { return 0 };
        let new = lost.saturating_sub(self.known);
        self.known = lost;
        new
    }
}

/// The last column of a socket's line in `/proc/net/udp`.
fn lost_of(table: &str, inode: u64) -> Option<u64> {
    let columns = |line: &str| -> Option<(u64, u64)> {
        let mut columns = line.split_whitespace().skip(9);
        Some((columns.next()?.parse().ok()?, columns.nth(2)?.parse().ok()?))
    };
    table.lines().filter_map(columns).find(|(of, _)| *of == inode).map(|(_, lost)| lost)
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

#[cfg(test)]
mod tests {
    use super::lost_of;

    #[test]
    fn the_losses_of_a_socket_are_read_from_the_kernels_table() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops             \n\
            12345: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 271828 2 0000000000000000 763458      \n\
              346: 0100007F:0036 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 314159 2 0000000000000000 0         \n";
        assert_eq!((lost_of(table, 271_828), lost_of(table, 314_159)), (Some(763_458), Some(0)));
        assert_eq!((lost_of(table, 1), lost_of("", 1)), (None, None));
    }
}
