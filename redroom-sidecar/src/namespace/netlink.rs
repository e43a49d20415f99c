//! The few messages to the kernel's routing that a slot needs, each answered before the next is sent.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, sendto, socket_with};

use super::message::{Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, Verdict};

// From the kernel's headers: linux/rtnetlink.h, linux/if_addr.h, linux/if.h, bits/socket.h.
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
        let mut message = self.message(RTM_NEWLINK, 0);
        message.put(&[AF_UNSPEC, 0, 0, 0]);
        message.put(&self.loopback.to_ne_bytes());
        message.put(&IFF_UP.to_ne_bytes());
        message.put(&IFF_UP.to_ne_bytes());
        self.ask(message)
    }

    /// Adds an address that stands for itself only.
    pub(super) fn add_address(&mut self, address: IpAddr) -> io::Result<()> {
        let octets = octets(address);
        let bits = if address.is_ipv6() { 128 } else { 32 };
        let mut message = self.message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
        message.put(&[family(address.is_ipv6()), bits, IFA_F_NODAD, RT_SCOPE_UNIVERSE]);
        message.put(&self.loopback.to_ne_bytes());
        message.attribute(IFA_LOCAL, &octets);
        message.attribute(IFA_ADDRESS, &octets);
        self.ask(message)
    }

    /// As `ip route replace local default dev lo`.
    pub(super) fn make_everything_local(&mut self, ipv6: bool) -> io::Result<()> {
        let scope = if ipv6 { RT_SCOPE_UNIVERSE } else { RT_SCOPE_HOST };
        let mut message = self.message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
        message.put(&[family(ipv6), 0, 0, 0, RT_TABLE_LOCAL, RTPROT_BOOT, scope, RTN_LOCAL, 0, 0, 0, 0]);
        message.attribute(RTA_OIF, &self.loopback.to_ne_bytes());
        self.ask(message)
    }

    fn message(&mut self, kind: u16, flags: u16) -> Message {
        self.sequence += 1;
        Message::new(kind, NLM_F_ACK | flags, self.sequence)
    }

    /// Sends a message and waits for the kernel's verdict.
    fn ask(&mut self, message: Message) -> io::Result<()> {
        sendto(&self.socket, &message.finish(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut reply = [0; 4096];
        let (length, _) = recv(&self.socket, &mut reply[..], RecvFlags::empty())?;
        Verdict::parse(&reply[..length]).ok_or(io::ErrorKind::InvalidData)?.result()
    }
}

pub(super) fn family(ipv6: bool) -> u8 {
    if ipv6 { AF_INET6 } else { AF_INET }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
