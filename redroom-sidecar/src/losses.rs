//! What the kernel had no room for: it was sent, and nobody took it in. Told as a fault, for what it held was not searched.

use std::os::fd::AsFd;

use crate::slot::Slot;
use crate::wire::Report;

/// Of datagrams, those for which a socket's queue had no room.
pub(crate) struct LostDatagrams {
    known: u32,
}

impl LostDatagrams {
    pub(crate) fn of(socket: &impl AsFd) -> Self {
        LostDatagrams { known: ask::dropped(socket) }
    }

    /// Says how many were lost since it was asked last, if any were. `to` is where they were meant for.
    pub(crate) async fn tell(&mut self, socket: &impl AsFd, slot: &Slot, to: &str) {
        let lost = since(&mut self.known, ask::dropped(socket));
        if lost > 0 {
            let detail = format!(
                "{lost} datagrams to {to} came faster than they could be read, and were lost: what they held was not searched"
            );
            tell(slot, "datagrams_lost", detail).await;
        }
    }
}

/// Of connections, those for which a listener's queue had no room. Most clients try again; one that gives up before there is
/// room has been heard by nobody, whatever it sent.
pub(crate) struct LostConnections {
    known: u32,
    /// Whether the queue was full since it was told last. The kernel counts what it drops for other reasons in the same place,
    /// such as the echo of a connection that ended; while there is room, no connection is lost.
    full: bool,
}

impl LostConnections {
    pub(crate) fn of(listener: &impl AsFd) -> Self {
        LostConnections { known: ask::dropped(listener), full: false }
    }

    /// To be called after each connection that is taken in: nothing else makes room, so that no full queue goes unseen.
    pub(crate) fn look(&mut self, listener: &impl AsFd) {
        self.full |= ask::was_full(listener);
    }

    /// Says how many were turned away since it was asked last, if any were. `at` is where they knocked.
    pub(crate) async fn tell(&mut self, listener: &impl AsFd, slot: &Slot, at: &str) {
        let lost = since(&mut self.known, ask::dropped(listener));
        if std::mem::take(&mut self.full) && lost > 0 {
            let detail = format!(
                "{lost} times a connection to {at} found no room in the kernel's queue: what a client sent that gave up then was \
                 not searched"
            );
            tell(slot, "connections_lost", detail).await;
        }
    }
}

fn since(known: &mut u32, all: u32) -> u32 {
    all.wrapping_sub(std::mem::replace(known, all))
}

async fn tell(slot: &Slot, code: &str, detail: String) {
    let generation = slot.tenant().generation();
    slot.reports.send(Report::Fault { generation, code: code.to_owned(), detail }).await;
}

/// The sockets themselves are asked: the kernel's tables show those of a process's own namespace only, and a jail's are served
/// from outside.
#[cfg(target_os = "linux")]
mod ask {
    use std::os::fd::AsFd;

    use nix::sys::socket::getsockopt;
    use nix::{getsockopt_impl, libc, sockopt_impl};

    /// How much a socket was ever brought and did not take.
    pub(super) fn dropped(socket: &impl AsFd) -> u32 {
        getsockopt(&socket.as_fd(), Memory).map_or(0, |[.., dropped]| dropped)
    }

    /// Whether a listener's queue was full before the connection that was taken last.
    pub(super) fn was_full(listener: &impl AsFd) -> bool {
        getsockopt(&listener.as_fd(), State).is_ok_and(|[.., waiting, most]| waiting >= most)
    }

    sockopt_impl!(
        /// What a socket takes of memory, and last, how much it dropped.
        Memory,
        GetOnly,
        libc::SOL_SOCKET,
        libc::SO_MEMINFO,
        [u32; 9]
    );

    sockopt_impl!(
        /// The beginning of the kernel's `tcp_info`. Of a listener, its last two tell how many connections wait, and one less
        /// than how many may.
        State,
        GetOnly,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        [u32; 8]
    );
}

#[cfg(not(target_os = "linux"))]
mod ask {
    use std::os::fd::AsFd;

    pub(super) fn dropped(_: &impl AsFd) -> u32 {
        0
    }

    pub(super) fn was_full(_: &impl AsFd) -> bool {
        false
    }
}
