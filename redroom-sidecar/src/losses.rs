//! Datagrams for which the kernel had no room: they were sent, and nobody read them.

use tokio::net::UdpSocket;

use crate::slot::Slot;
use crate::wire::Report;

/// How many datagrams of a socket the kernel had no room for.
pub(crate) struct Losses {
    known: u32,
}

impl Losses {
    pub(crate) fn of(socket: &UdpSocket) -> Self {
        Losses { known: all(socket) }
    }

    /// Says how many were lost unread since it was asked last, if any were. `to` is where they were meant for.
    pub(crate) async fn tell(&mut self, socket: &UdpSocket, slot: &Slot, to: &str) {
        let all = all(socket);
        let lost = all.wrapping_sub(std::mem::replace(&mut self.known, all));
        if lost > 0 {
            let code = "datagrams_lost".to_owned();
            let detail = format!(
                "{lost} datagrams to {to} came faster than they could be read, and were lost: what they held was not searched"
            );
            slot.reports.send(Report::Fault { generation: slot.tenant().generation(), code, detail }).await;
        }
    }
}

/// All that were ever lost. The socket itself is asked: the kernel's tables show those of a process's own namespace only,
/// and a jail's are served from outside.
#[cfg(target_os = "linux")]
fn all(socket: &UdpSocket) -> u32 {
    nix::sys::socket::getsockopt(socket, memory::Memory).map_or(0, |[.., lost]| lost)
}

#[cfg(not(target_os = "linux"))]
fn all(_: &UdpSocket) -> u32 {
    0
}

#[cfg(target_os = "linux")]
mod memory {
    use nix::{getsockopt_impl, libc, sockopt_impl};

    sockopt_impl!(
        /// What a socket takes of memory, and last, how often there was none.
        Memory,
        GetOnly,
        libc::SOL_SOCKET,
        libc::SO_MEMINFO,
        [u32; 9]
    );
}
