//! A network namespace in which every address is local: whatever the agent dials arrives at the slot's listeners, with the
//! address that it meant.
//!
//! Works on the namespace of the calling thread, needs `CAP_NET_ADMIN` there, and starts no thread and no runtime, so
//! that a jail can call it right after it has made its namespace.

mod message;
mod netlink;
mod redirection;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use self::netlink::Netlink;

/// The slot's own addresses (documentation ranges). Resolvers ask for a family only where an address of it exists that is not the loopback's.
pub const OWN: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x10))];

/// Why a namespace is not made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The kernel cannot be asked.
    #[error("the kernel's routing cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The kernel refused.
    #[error("the kernel refused to {step}; the slot needs CAP_NET_ADMIN in its network namespace")]
    Refused {
        /// What was asked of it.
        step: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The kernel cannot redirect.
    #[error("the kernel cannot redirect {0}: it needs nf_tables with nft_tproxy and nft_socket")]
    NoRedirection(&'static str, #[source] io::Error),
    /// Capabilities could not be given up.
    #[error("capabilities cannot be given up")]
    Capabilities(#[source] io::Error),
}

/// Makes every address local, IPv6 too if the kernel has it, and gives the loopback a global address of each family.
pub fn make_every_address_local() -> Result<(), NamespaceError> {
    let mut netlink = Netlink::open().map_err(NamespaceError::Unreachable)?;
    let refused = |step| move |source| NamespaceError::Refused { step, source };
    netlink.raise_loopback().map_err(refused("raise the loopback"))?;
    for address in OWN {
        let made = netlink.add_address(address).map_err(refused("add an address to the loopback")).and_then(|()| {
            netlink.make_everything_local(address.is_ipv6()).map_err(refused("make every address local"))
        });
        match made {
            Err(_) if address.is_ipv6() && !has_ipv6() => {}
            made => made?,
        }
    }
    Ok(())
}

/// From now on, what nobody in this namespace listens for arrives at the transparent sockets that are bound to `to`: every
/// connection and datagram of its family to a foreign address.
pub(crate) fn bring_other_ports(to: SocketAddr) -> Result<(), NamespaceError> {
    let own = if to.is_ipv6() { OWN[1] } else { OWN[0] };
    let what = if to.is_ipv6() { "IPv6 connections to other ports" } else { "IPv4 connections to other ports" };
    redirection::redirect(to, own).map_err(|source| NamespaceError::NoRedirection(what, source))
}

/// The kernel lists the loopback's own IPv6 address wherever it has one.
fn has_ipv6() -> bool {
    std::fs::read("/proc/net/if_inet6").is_ok_and(|list| !list.is_empty())
}

/// Gives up every capability of the calling thread, for good. To be called before another thread is started: each has its
/// own.
pub fn give_up_capabilities() -> Result<(), NamespaceError> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| NamespaceError::Capabilities(error.into()))
}
