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
use self::redirection::Served;
use crate::listen::{DNS, HTTP, HTTPS};
use crate::wire::{HOOK_ADDRESS, RELAY_ADDRESS};

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
    /// It is not a slot's: making every address local would take the network from whatever lives there.
    #[error("this network namespace has a way out: it is not a slot's, and is left as it is")]
    Inhabited,
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
///
/// # Errors
///
/// Besides what the kernel refuses: [`NamespaceError::Inhabited`], before anything is changed, where there is a route that
/// leaves the namespace.
pub fn make_every_address_local() -> Result<(), NamespaceError> {
    check_uninhabited()?;
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

/// From now on, every connection and datagram of its family to a foreign address arrives at the transparent sockets that are
/// bound to `to`, whoever else listens for it in this namespace, but for the ports that a slot serves. In a namespace that leads
/// somewhere, nothing is changed.
pub(crate) fn bring_other_ports(to: SocketAddr) -> Result<(), NamespaceError> {
    check_uninhabited()?;
    let own = if to.is_ipv6() { OWN[1] } else { OWN[0] };
    let what = if to.is_ipv6() { "IPv6 connections to other ports" } else { "IPv4 connections to other ports" };
    let services = [RELAY_ADDRESS.into(), HOOK_ADDRESS.into()];
    let served = Served { services, tcp: [HTTP, HTTPS, DNS], names: DNS };
    redirection::redirect(to, own, &served).map_err(|source| NamespaceError::NoRedirection(what, source))
}

fn check_uninhabited() -> Result<(), NamespaceError> {
    let ipv4 = std::fs::read_to_string("/proc/thread-self/net/route").map_err(NamespaceError::Unreachable)?;
    // A kernel without IPv6 has no such file.
    let ipv6 = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    if leads_out(&ipv4, &ipv6) { Err(NamespaceError::Inhabited) } else { Ok(()) }
}

/// Whether one of the kernel's routes has another interface than the loopback. IPv4's list has a headline and names the
/// interface first, IPv6's has none and names it last.
fn leads_out(ipv4: &str, ipv6: &str) -> bool {
    let first = ipv4.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let last = ipv6.lines().filter_map(|line| line.split_whitespace().last());
    first.chain(last).any(|interface| interface != "lo")
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADLINE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    const LOOPBACK: &str = "00000000000000000000000000000001 80 00000000000000000000000000000000 00 \
                            00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n";

    #[test]
    fn a_namespace_with_a_route_over_another_interface_is_no_slots() {
        let ethernet = format!("{HEADLINE}eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        assert!(!leads_out(HEADLINE, LOOPBACK));
        assert!(!leads_out(HEADLINE, ""));
        assert!(leads_out(&ethernet, LOOPBACK));
        assert!(leads_out(HEADLINE, &LOOPBACK.replace("      lo", "    eth0")));
    }
}
