//! The sockets of a slot: made before anything else of the sidecar lives, in the slot's network namespace, by the sidecar
//! itself or by whoever hands them over.

#[cfg(target_os = "linux")]
mod elsewhere;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::wire::{HOOK_ADDRESS, OTHER_PORTS_ADDRESSES, RELAY_ADDRESS};

pub(crate) const HTTP: u16 = 80;
pub(crate) const HTTPS: u16 = 443;
pub(crate) const DNS: u16 = 53;

/// Connections that the kernel keeps until they are accepted; it lowers the number to what the system allows.
const BACKLOG: i32 = 65_535;

/// Room for datagrams that wait, in bytes. A datagram that finds none is lost, and with it evidence.
const DATAGRAM_ROOM: usize = 4 * 1024 * 1024;

/// The sockets of a slot. Each may be given for IPv4 and IPv6, on wildcard addresses: what a client meant is the
/// connection's local address.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Listeners {
    /// The fake web. Which of the two a listener is in does not decide about TLS: the first byte does.
    pub http: Vec<TcpListener>,
    /// The fake web's other port.
    pub https: Vec<TcpListener>,
    /// DNS over TCP.
    pub dns_tcp: Vec<TcpListener>,
    /// DNS over UDP.
    pub dns_udp: Vec<UdpSocket>,
    /// The model relay.
    pub relay: Vec<TcpListener>,
    /// The tool hook.
    pub hook: Vec<TcpListener>,
    /// Connections to other ports, where the kernel brings them.
    pub other_tcp: Vec<TcpListener>,
    /// Datagrams to other ports, where the kernel brings them.
    pub other_udp: Vec<UdpSocket>,
    /// Why the kernel does not, if that is known here.
    pub other_refused: Option<String>,
}

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// It cannot be bound.
    #[error("{protocol} {address} cannot be bound")]
    Bind {
        /// `tcp` or `udp`.
        protocol: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A socket that was handed over is none of a slot's.
    #[error("a socket that was handed over is none of a slot's")]
    Foreign,
    /// A socket that was handed over cannot be looked at.
    #[error("a socket that was handed over cannot be used")]
    Unusable(#[source] io::Error),
}

impl Listeners {
    /// Binds every socket of a slot, in the network namespace of the calling thread, on a kernel with or without IPv6. Has
    /// the kernel bring connections to other ports, where it can: a slot lives without, and says so.
    pub fn bind() -> Result<Self, ListenError> {
        let mut listeners = Listeners {
            relay: vec![tcp(RELAY_ADDRESS.into())?],
            hook: vec![tcp(HOOK_ADDRESS.into())?],
            ..Listeners::default()
        };
        let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        for address in everywhere.into_iter().filter(|address| address.is_ipv4() || speaks_ipv6()) {
            listeners.http.push(tcp((address, HTTP).into())?);
            listeners.https.push(tcp((address, HTTPS).into())?);
            listeners.dns_tcp.push(tcp((address, DNS).into())?);
            listeners.dns_udp.push(udp((address, DNS).into())?);
        }
        #[cfg(target_os = "linux")]
        for address in OTHER_PORTS_ADDRESSES.into_iter().filter(|address| address.is_ipv4() || speaks_ipv6()) {
            match elsewhere::open(address) {
                Ok((connections, datagrams)) => {
                    listeners.other_tcp.push(connections);
                    listeners.other_udp.push(datagrams);
                }
                Err(why) => listeners.other_refused = Some(why),
            }
        }
        Ok(listeners)
    }

    /// Why connections to other ports are not seen, if so.
    pub(crate) fn other_ports_unseen(&self) -> Option<String> {
        let seen = self.other_tcp.len() == self.http.len() && self.other_udp.len() == self.http.len();
        // A kernel that has them as modules loads them by itself, unless it may not, or was replaced on the disk since it started.
        let unknown = || {
            "the kernel brings them nowhere: it lacks nft_tproxy or nft_socket, or could not load them (`modprobe -a nft_tproxy nft_socket` says why)".to_owned()
        };
        (!seen).then(|| self.other_refused.clone().unwrap_or_else(unknown))
    }

    /// The same sockets, for another process to take over with [`Listeners::from_sockets`].
    pub fn into_sockets(self) -> Vec<OwnedFd> {
        let streams = [self.http, self.https, self.dns_tcp, self.relay, self.hook, self.other_tcp];
        let datagrams = self.dns_udp.into_iter().chain(self.other_udp);
        streams.into_iter().flatten().map(OwnedFd::from).chain(datagrams.map(OwnedFd::from)).collect()
    }

    /// Takes over sockets that [`Listeners::bind`] made elsewhere, in any order.
    pub fn from_sockets(sockets: Vec<OwnedFd>) -> Result<Self, ListenError> {
        let mut listeners = Listeners::default();
        for socket in sockets {
            let socket = Socket::from(socket);
            let kind = socket.r#type().map_err(ListenError::Unusable)?;
            let address = socket.local_addr().map_err(ListenError::Unusable)?;
            let address = address.as_socket().ok_or(ListenError::Foreign)?;
            let place = match address.port() {
                HTTP => &mut listeners.http,
                HTTPS => &mut listeners.https,
                DNS if kind == Type::DGRAM => {
                    listeners.dns_udp.push(socket.into());
                    continue;
                }
                _ if kind == Type::DGRAM && OTHER_PORTS_ADDRESSES.contains(&address) => {
                    listeners.other_udp.push(socket.into());
                    continue;
                }
                DNS => &mut listeners.dns_tcp,
                _ if address == RELAY_ADDRESS.into() => &mut listeners.relay,
                _ if address == HOOK_ADDRESS.into() => &mut listeners.hook,
                _ if OTHER_PORTS_ADDRESSES.contains(&address) => &mut listeners.other_tcp,
                _ => return Err(ListenError::Foreign),
            };
            if kind != Type::STREAM {
                return Err(ListenError::Foreign);
            }
            place.push(socket.into());
        }
        Ok(listeners)
    }
}

/// Whether the kernel can make an IPv6 socket and has an address for one.
fn speaks_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// No SO_REUSEADDR, no SO_REUSEPORT: nobody shares these.
fn tcp(address: SocketAddr) -> Result<TcpListener, ListenError> {
    tcp_with(address, |_| Ok(()))
}

fn tcp_with(address: SocketAddr, set: impl Fn(&Socket) -> io::Result<()>) -> Result<TcpListener, ListenError> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        set(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bound().map_err(|source| ListenError::Bind { protocol: "tcp", address, source })
}

fn udp(address: SocketAddr) -> Result<UdpSocket, ListenError> {
    udp_with(address, |_| Ok(()))
}

fn udp_with(address: SocketAddr, set: impl Fn(&Socket) -> io::Result<()>) -> Result<UdpSocket, ListenError> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        make_room(&socket);
        set(&socket)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    bound().map_err(|source| ListenError::Bind { protocol: "udp", address, source })
}

/// As much room as may be had: over the system's limit where the privilege is there, which it is in a slot.
fn make_room(socket: &Socket) {
    #[cfg(target_os = "linux")]
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket.as_fd(), DATAGRAM_ROOM).is_ok() {
        return;
    }
    let _ = SockRef::from(&socket.as_fd()).set_recv_buffer_size(DATAGRAM_ROOM);
}
