//! The slot's sockets: how they are bound, how connections are taken, and how what waits in them is read out at a run's end.
//!
//! Web, relay, hook and DNS have connection limits of their own, so that a flood of one cannot starve another.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tenancy::{Current, Tenancy};
use crate::wire::{HOOK_ADDRESS, RELAY_ADDRESS};

/// How many connections may wait to be taken.
const BACKLOG: i32 = 4096;

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// The fake web without TLS.
    Http,
    /// The fake web with TLS.
    Https,
    /// Names over TCP.
    Dns,
    /// The agent's model.
    Relay,
    /// The agent's hooks.
    Hook,
}

/// Every socket of a slot, bound.
#[derive(Debug, Default)]
pub struct Listeners {
    /// TCP listeners.
    pub tcp: Vec<(Service, std::net::TcpListener)>,
    /// UDP sockets for names.
    pub dns: Vec<std::net::UdpSocket>,
}

/// A socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl Listeners {
    /// Binds the sockets of a slot: web and names on every address of both families, relay and hook on their own.
    ///
    /// # Errors
    ///
    /// The address that could not be bound. Ports below 1024 need CAP_NET_BIND_SERVICE.
    pub fn bind() -> Result<Self, BindError> {
        let mut listeners = Listeners::default();
        for any in [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))] {
            for (service, port) in [(Service::Http, 80), (Service::Https, 443), (Service::Dns, 53)] {
                let mut address = any;
                address.set_port(port);
                listeners.tcp.push((service, tcp(address)?));
            }
            let mut address = any;
            address.set_port(53);
            listeners.dns.push(udp(address)?);
        }
        listeners.tcp.push((Service::Relay, tcp(RELAY_ADDRESS.into())?));
        listeners.tcp.push((Service::Hook, tcp(HOOK_ADDRESS.into())?));
        Ok(listeners)
    }
}

/// A TCP listener at this address alone: no other socket may share it.
fn tcp(address: SocketAddr) -> Result<std::net::TcpListener, BindError> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bound().map_err(|source| BindError { address, source })
}

fn udp(address: SocketAddr) -> Result<std::net::UdpSocket, BindError> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
            // Answers must come from the address that was asked, and that is none of this host's own.
            socket.set_freebind_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    bound().map_err(|source| BindError { address, source })
}

/// A connection, and whose it is.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The address that was meant.
    pub(crate) meant: SocketAddr,
    pub(crate) tenancy: Arc<Tenancy>,
    /// Held until the connection is over; none for those read out at a run's end.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// A listener at work.
pub(crate) struct Port {
    pub(crate) service: Service,
    listener: TcpListener,
    permits: Arc<Semaphore>,
    current: Arc<Current>,
}

impl Port {
    pub(crate) fn new(
        service: Service,
        listener: std::net::TcpListener,
        permits: Arc<Semaphore>,
        current: Arc<Current>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Port { service, listener: TcpListener::from_std(listener)?, permits, current })
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Connection {
        loop {
            let permit = self.permits.clone().acquire_owned().await.ok();
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(connection) = self.connection(stream, permit) {
                        return connection;
                    }
                }
                // A connection that was gone before it was taken, or no descriptor left: both pass.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Every connection that waits to be taken, now. Asked of the kernel itself: what the runtime knows can lag behind.
    pub(crate) fn take_waiting(&self) -> Vec<Connection> {
        let mut waiting = Vec::new();
        while let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            let stream = TcpStream::from_std(std::net::TcpStream::from(socket));
            waiting.extend(stream.ok().and_then(|stream| self.connection(stream, None)));
        }
        waiting
    }

    fn connection(&self, stream: TcpStream, permit: Option<OwnedSemaphorePermit>) -> Option<Connection> {
        let meant = stream.local_addr().ok()?;
        let _ = stream.set_nodelay(true);
        Some(Connection { stream, meant, tenancy: self.current.get(), permit })
    }
}
