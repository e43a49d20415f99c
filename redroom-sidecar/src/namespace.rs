//! Makes every address local in this network namespace, and then gives up what was needed for it.
//!
//! After [`make_every_address_local`] a connection to any address of either family, the metadata service's and the public
//! resolvers' among them, arrives at a listener of this namespace with the meant address as the socket's local one. It is
//! synchronous and single-threaded on purpose: it runs before anything else, also where no runtime may exist yet.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{CapabilitySet, CapabilitySets};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IFF_UP: u32 = 1;
const RTA_OIF: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
/// The loopback device is the first one of every namespace.
const LOOPBACK: u32 = 1;

/// A step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub struct NamespaceError {
    step: &'static str,
    source: io::Error,
}

/// Raises the loopback device, gives it a global address of each family (resolvers ask for a family only where such an
/// address exists) and makes every other address local.
///
/// # Errors
///
/// The step that the kernel refused; it needs CAP_NET_ADMIN in the namespace.
pub fn make_every_address_local(v4: Ipv4Addr, v6: Ipv6Addr) -> Result<(), NamespaceError> {
    let kernel = Kernel::open().map_err(|source| NamespaceError { step: "talk to the kernel's router", source })?;
    let run = |step, message: Message| kernel.ask(message).map_err(|source| NamespaceError { step, source });
    run("raise the loopback device", Message::link_up())?;
    run("give the loopback device an IPv4 address", Message::address(AF_INET, 32, &v4.octets()))?;
    run("give the loopback device an IPv6 address", Message::address(AF_INET6, 128, &v6.octets()))?;
    run("make every IPv4 address local", Message::local_default(AF_INET))?;
    run("make every IPv6 address local", Message::local_default(AF_INET6))
}

/// Gives up every capability of this thread, and with it of all threads that it starts later.
///
/// # Errors
///
/// The kernel's refusal.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// The kernel's end of a routing socket.
struct Kernel(OwnedFd);

impl Kernel {
    fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // NETLINK_ROUTE is protocol 0.
            None,
        )?;
        Ok(Kernel(socket))
    }

    fn ask(&self, message: Message) -> io::Result<()> {
        let bytes = message.finish();
        rustix::net::sendto(&self.0, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0u8; 4096];
        let (length, _) = rustix::net::recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        acknowledged(&answer[..length])
    }
}

/// Reads the kernel's acknowledgement: an error message with the code 0.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer does not parse");
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(garbled()),
    }
}

/// A routing message under construction: header, body, attributes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    fn link_up() -> Self {
        let mut body = vec![0, 0, 0, 0];
        body.extend_from_slice(&LOOPBACK.to_ne_bytes());
        body.extend_from_slice(&IFF_UP.to_ne_bytes());
        body.extend_from_slice(&IFF_UP.to_ne_bytes());
        Message::new(RTM_NEWLINK, 0, &body)
    }

    fn address(family: u8, prefix: u8, address: &[u8]) -> Self {
        let mut body = vec![family, prefix, 0, 0];
        body.extend_from_slice(&LOOPBACK.to_ne_bytes());
        Message::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body)
            .attribute(IFA_LOCAL, address)
            .attribute(IFA_ADDRESS, address)
    }

    /// `local default dev lo`, in the main table: the namespace's own subnets still win by their longer prefix.
    fn local_default(family: u8) -> Self {
        let mut body = vec![family, 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL];
        body.extend_from_slice(&0u32.to_ne_bytes());
        Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body).attribute(RTA_OIF, &LOOPBACK.to_ne_bytes())
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        // Every attribute of ours is a multiple of four bytes long: no padding is needed.
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_carries_the_kernels_reason() {
        let mut answer = vec![0; 16];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer.extend_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer).unwrap_err().raw_os_error(), Some(1));
        answer[16..20].copy_from_slice(&0i32.to_ne_bytes());
        assert!(acknowledged(&answer).is_ok());
        assert!(acknowledged(&answer[..10]).is_err());
    }

    #[test]
    fn messages_say_how_long_they_are_and_keep_to_four_bytes() {
        for message in [
            Message::link_up(),
            Message::address(AF_INET6, 128, &[0; 16]),
            Message::address(AF_INET, 32, &[0; 4]),
            Message::local_default(AF_INET),
        ] {
            let bytes = message.finish();
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        }
    }
}
