//! The sockets that connections and datagrams to other ports are brought to. They are transparent: an accepted
//! connection's local address is the one that the client meant, and a datagram comes with it.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket};

use super::{tcp_with, udp_with};
use crate::conversation::describe;
use crate::namespace::bring_other_ports;

/// Opens both for the family of `address` and has the kernel bring everything there; or says why not.
pub(super) fn open(address: SocketAddr) -> Result<(TcpListener, UdpSocket), String> {
    let connections = tcp_with(address, transparent).map_err(|error| describe(&error))?;
    let datagrams = udp_with(address, told_what_was_meant).map_err(|error| describe(&error))?;
    bring_other_ports(address).map_err(|error| describe(&error))?;
    Ok((connections, datagrams))
}

fn transparent(socket: &Socket) -> io::Result<()> {
    match socket.domain()? {
        Domain::IPV6 => socket.set_ip_transparent_v6(true),
        _ => socket.set_ip_transparent_v4(true),
    }
}

fn told_what_was_meant(socket: &Socket) -> io::Result<()> {
    transparent(socket)?;
    let told = match socket.domain()? {
        Domain::IPV6 => setsockopt(socket, sockopt::Ipv6OrigDstAddr, &true),
        _ => setsockopt(socket, sockopt::Ipv4OrigDstAddr, &true),
    };
    told.map_err(io::Error::from)
}
