//! The few messages to the kernel's routing that a slot needs, each answered before the next is sent.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, sendto, socket_with};

// From the kernel's headers: linux/netlink.h, linux/rtnetlink.h, linux/if_addr.h, linux/if.h, bits/socket.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFF_UP: u32 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const RTA_OIF: u16 = 4;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The length of a message's header, and of an error's code after it.
const HEADER: usize = 16;
const CODE: usize = 4;

pub(super) struct Netlink {
    socket: OwnedFd,
    loopback: u32,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let loopback = netdevice::name_to_index(any, "lo")?;
        Ok(Netlink { socket, loopback, sequence: 0 })
    }

    pub(super) fn raise_loopback(&mut self) -> io::Result<()> {
        let mut link = vec![AF_UNSPEC, 0, 0, 0];
        link.extend_from_slice(&self.loopback.to_ne_bytes());
        link.extend_from_slice(&IFF_UP.to_ne_bytes());
        link.extend_from_slice(&IFF_UP.to_ne_bytes());
        self.ask(RTM_NEWLINK, 0, &link)
    }

    /// Adds an address that stands for itself only.
    pub(super) fn add_address(&mut self, address: IpAddr) -> io::Result<()> {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let bits = if address.is_ipv6() { 128 } else { 32 };
        let mut message = vec![family(address.is_ipv6()), bits, IFA_F_NODAD, RT_SCOPE_UNIVERSE];
        message.extend_from_slice(&self.loopback.to_ne_bytes());
        put_attribute(&mut message, IFA_LOCAL, &octets);
        put_attribute(&mut message, IFA_ADDRESS, &octets);
        self.ask(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &message)
    }

    /// As `ip route replace local default dev lo`.
    pub(super) fn make_everything_local(&mut self, ipv6: bool) -> io::Result<()> {
        let scope = if ipv6 { RT_SCOPE_UNIVERSE } else { RT_SCOPE_HOST };
        let mut message = vec![family(ipv6), 0, 0, 0, RT_TABLE_LOCAL, RTPROT_BOOT, scope, RTN_LOCAL, 0, 0, 0, 0];
        put_attribute(&mut message, RTA_OIF, &self.loopback.to_ne_bytes());
        self.ask(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &message)
    }

    /// Sends a message and waits for the kernel's verdict.
    fn ask(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + payload.len()).map_err(io::Error::other)?;
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&0u32.to_ne_bytes());
        message.extend_from_slice(payload);
        sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;

        let mut verdict = [0; 4096];
        let (length, _) = recv(&self.socket, &mut verdict[..], RecvFlags::empty())?;
        match error_code(&verdict[..length]) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The code in the kernel's verdict: 0 for success, else a negative error number.
fn error_code(verdict: &[u8]) -> Option<i32> {
    let kind = verdict.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
    let code = verdict.get(HEADER..HEADER + CODE)?.try_into().ok().map(i32::from_ne_bytes)?;
    (kind == NLMSG_ERROR).then_some(code)
}

fn family(ipv6: bool) -> u8 {
    if ipv6 { AF_INET6 } else { AF_INET }
}

/// Every value here is a multiple of four bytes long, so that nothing has to be padded.
fn put_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    const ATTRIBUTE: usize = 4;
    let length = (ATTRIBUTE + value.len()) as u16;
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
}
