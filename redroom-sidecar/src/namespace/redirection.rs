//! What the slot serves on no port of its own is brought to a socket of the slot's, unchanged: connections and datagrams to
//! every other port of every foreign address, by the kernel's transparent proxying. It tracks no connection and rewrites no
//! packet.
//!
//! The rules, one set for each family, seen by each packet before it is delivered:
//!
//! 1. it is for this machine itself: let it pass, so that the agent's own servers are as ever, and a closed port of
//!    `localhost` stays closed;
//! 2. it is for a socket of the slot's (the fake web, relay and hook), or comes from its resolver: let it pass;
//! 3. it begins a connection, or is a datagram: to the transparent socket, also where the agent itself listens on all
//!    addresses, for it was meant for elsewhere;
//! 4. it belongs to a connection of a socket that is not transparent, an answer to the agent: let it pass;
//! 5. it belongs to one of the transparent socket's: there.
//!
//! Other protocols that programs may speak without rights (UDP-Lite, SCTP, DCCP, L2TP, as the kernel has them) could be brought to
//! nobody, nor could datagrams to a group, which the kernel gives to its members only: they are refused to who sends them.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::message::{Message, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, Verdict};
use super::netlink::{family, octets};

// From the kernel's headers: linux/netfilter.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h.
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_NEWTABLE: u16 = NFNL_SUBSYS_NFTABLES << 8;
const NFT_MSG_NEWCHAIN: u16 = NFNL_SUBSYS_NFTABLES << 8 | 3;
const NFT_MSG_NEWRULE: u16 = NFNL_SUBSYS_NFTABLES << 8 | 6;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_SOCKET_KEY: u16 = 1;
const NFTA_SOCKET_DREG: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_TPROXY_FAMILY: u16 = 1;
const NFTA_TPROXY_REG_ADDR: u16 = 2;
const NFTA_TPROXY_REG_PORT: u16 = 3;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_OUT: u32 = 3;
/// Where address translation would not have happened yet.
const PRIORITY_MANGLE: i32 = -150;
const NFT_SOCKET_TRANSPARENT: u32 = 0;
const NFT_META_L4PROTO: u32 = 16;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_LTE: u32 = 3;
const NFT_CMP_GTE: u32 = 5;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_REG_VERDICT: u32 = 0;
const NFT_REG_1: u32 = 1;
const NFT_REG_2: u32 = 2;

/// Where the destination lies in a packet's header.
const IPV4_DESTINATION: u32 = 16;
const IPV6_DESTINATION: u32 = 24;
/// Where the ports lie in a header of TCP or UDP, and the flags in one of TCP.
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;
const FLAGS: u32 = 13;
/// The first byte of every IPv4 loopback address.
const IPV4_LOOPBACK: u8 = 127;
/// The first bytes of all groups' addresses: from, to.
const IPV4_GROUPS: [u8; 2] = [224, 239];
const IPV6_GROUPS: [u8; 2] = [255, 255];

const TABLE: &[u8] = b"redroom\0";
const CHAIN: &[u8] = b"other_ports\0";
const SENT: &[u8] = b"sent\0";

/// What may be sent: ICMP, IGMP, TCP, UDP, ICMPv6. The kernel itself speaks those that are brought nowhere.
const HEARD: [u8; 5] = [1, 2, 6, 17, 58];

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The flags of a packet that begins a connection: SYN, and the same where congestion is to be told.
const BEGINNINGS: [u8; 2] = [0x02, 0xc2];

/// Has the kernel bring to `to` what is sent, in its family, to foreign addresses: but for what the slot itself serves, that is
/// what is `served`, and for what is meant for `own` or the loopback.
pub(super) fn redirect(to: SocketAddr, own: IpAddr, served: &Served) -> io::Result<()> {
    let to_transparent = |rule: &mut Message| {
        load(rule, NFT_REG_1, &octets(to.ip()));
        load(rule, NFT_REG_2, &to.port().to_be_bytes());
        transparent_proxy(rule, to.is_ipv6());
    };
    let pass_to_others = |rule: &mut Message| {
        socket_transparent(rule);
        equal(rule, &[0]);
        accept(rule);
    };
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    let mut batch = Batch::new(to.is_ipv6());
    batch.add(NFT_MSG_NEWTABLE, NLM_F_CREATE, |message| message.attribute(NFTA_TABLE_NAME, TABLE));
    batch.add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, |message| chain(message, CHAIN, NF_INET_PRE_ROUTING, NF_ACCEPT));
    let loopback = if to.is_ipv6() { octets(Ipv6Addr::LOCALHOST.into()) } else { vec![IPV4_LOOPBACK] };
    for address in [loopback, octets(own)] {
        batch.rule(CHAIN, |rule| {
            destination(rule, to.is_ipv6(), address.len());
            equal(rule, &address);
            accept(rule);
        });
    }
    for service in served.services.iter().filter(|service| service.is_ipv6() == to.is_ipv6()) {
        let address = octets(service.ip());
        batch.rule(CHAIN, |rule| {
            destination(rule, to.is_ipv6(), address.len());
            equal(rule, &address);
            of_transport(rule, DESTINATION_PORT, 2);
            equal(rule, &service.port().to_be_bytes());
            pass_to_others(rule);
        });
    }
    let to_served = served.tcp.iter().map(|port| (TCP, DESTINATION_PORT, port));
    let of_names = [DESTINATION_PORT, SOURCE_PORT].map(|place| (UDP, place, &served.names));
    for (transport, place, port) in to_served.chain(of_names) {
        batch.rule(CHAIN, |rule| {
            protocol(rule);
            equal(rule, &[transport]);
            of_transport(rule, place, 2);
            equal(rule, &port.to_be_bytes());
            pass_to_others(rule);
        });
    }
    for flags in BEGINNINGS {
        batch.rule(CHAIN, |rule| {
            protocol(rule);
            equal(rule, &[TCP]);
            of_transport(rule, FLAGS, 1);
            equal(rule, &[flags]);
            to_transparent(rule);
        });
    }
    batch.rule(CHAIN, |rule| {
        protocol(rule);
        equal(rule, &[UDP]);
        to_transparent(rule);
    });
    batch.rule(CHAIN, pass_to_others);
    batch.rule(CHAIN, to_transparent);
    batch.add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, |message| chain(message, SENT, NF_INET_LOCAL_OUT, NF_DROP));
    let [first, last] = if to.is_ipv6() { IPV6_GROUPS } else { IPV4_GROUPS };
    batch.rule(SENT, |rule| {
        protocol(rule);
        equal(rule, &[UDP]);
        destination(rule, to.is_ipv6(), 1);
        compare(rule, NFT_CMP_GTE, &[first]);
        compare(rule, NFT_CMP_LTE, &[last]);
        verdict(rule, NF_DROP);
    });
    for heard in HEARD {
        batch.rule(SENT, |rule| {
            protocol(rule);
            equal(rule, &[heard]);
            accept(rule);
        });
    }
    let last = batch.sequence;
    sendto(&socket, &batch.finish(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;

    // The kernel has given its verdicts by now: one for each message that it refuses, and one for the last.
    let mut reply = [0; 4096];
    loop {
        let (length, _) = recv(&socket, &mut reply[..], RecvFlags::DONTWAIT)?;
        let verdict = Verdict::parse(&reply[..length]).ok_or(io::ErrorKind::InvalidData)?;
        verdict.result()?;
        if verdict.sequence == last {
            return Ok(());
        }
    }
}

/// What a slot serves itself.
pub(super) struct Served {
    /// Relay and hook.
    pub(super) services: [SocketAddr; 2],
    /// Ports on every address.
    pub(super) tcp: [u16; 3],
    /// The same, over UDP.
    pub(super) names: u16,
}

/// Messages that take effect together or not at all.
struct Batch {
    bytes: Vec<u8>,
    family: u8,
    sequence: u32,
}

impl Batch {
    fn new(ipv6: bool) -> Self {
        let mut batch = Batch { bytes: Vec::new(), family: family(ipv6), sequence: 0 };
        batch.bound(NFNL_MSG_BATCH_BEGIN);
        batch
    }

    fn add(&mut self, kind: u16, flags: u16, fill: impl FnOnce(&mut Message)) {
        self.sequence += 1;
        let mut message = Message::new(kind, NLM_F_ACK | flags, self.sequence);
        message.put(&[self.family, 0, 0, 0]);
        fill(&mut message);
        self.bytes.extend(message.finish());
    }

    fn rule(&mut self, chain: &[u8], expressions: impl FnOnce(&mut Message)) {
        self.add(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, |message| {
            message.attribute(NFTA_RULE_TABLE, TABLE);
            message.attribute(NFTA_RULE_CHAIN, chain);
            message.nest(NFTA_RULE_EXPRESSIONS, expressions);
        });
    }

    fn bound(&mut self, kind: u16) {
        let mut message = Message::new(kind, 0, 0);
        message.put(&[0, 0]);
        message.put(&NFNL_SUBSYS_NFTABLES.to_be_bytes());
        self.bytes.extend(message.finish());
    }

    fn finish(mut self) -> Vec<u8> {
        self.bound(NFNL_MSG_BATCH_END);
        self.bytes
    }
}

/// A chain that is asked at a place, and what becomes of what no rule of it knows.
fn chain(message: &mut Message, name: &[u8], place: u32, otherwise: u32) {
    message.attribute(NFTA_CHAIN_TABLE, TABLE);
    message.attribute(NFTA_CHAIN_NAME, name);
    message.nest(NFTA_CHAIN_HOOK, |message| {
        number(message, NFTA_HOOK_HOOKNUM, place);
        message.attribute(NFTA_HOOK_PRIORITY, &PRIORITY_MANGLE.to_be_bytes());
    });
    number(message, NFTA_CHAIN_POLICY, otherwise);
    message.attribute(NFTA_CHAIN_TYPE, b"filter\0");
}

/// Whether the socket that waits for the packet is transparent; without one, the rule does not hold.
fn socket_transparent(rule: &mut Message) {
    expression(rule, b"socket\0", |message| {
        number(message, NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
        number(message, NFTA_SOCKET_DREG, NFT_REG_1);
    });
}

/// The packet's protocol.
fn protocol(rule: &mut Message) {
    expression(rule, b"meta\0", |message| {
        number(message, NFTA_META_KEY, NFT_META_L4PROTO);
        number(message, NFTA_META_DREG, NFT_REG_1);
    });
}

/// The first bytes of the packet's destination.
fn destination(rule: &mut Message, ipv6: bool, length: usize) {
    expression(rule, b"payload\0", |message| {
        number(message, NFTA_PAYLOAD_DREG, NFT_REG_1);
        number(message, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
        number(message, NFTA_PAYLOAD_OFFSET, if ipv6 { IPV6_DESTINATION } else { IPV4_DESTINATION });
        number(message, NFTA_PAYLOAD_LEN, length as u32);
    });
}

/// So many bytes of the packet's header of TCP or UDP.
fn of_transport(rule: &mut Message, offset: u32, length: u32) {
    expression(rule, b"payload\0", |message| {
        number(message, NFTA_PAYLOAD_DREG, NFT_REG_1);
        number(message, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
        number(message, NFTA_PAYLOAD_OFFSET, offset);
        number(message, NFTA_PAYLOAD_LEN, length);
    });
}

fn equal(rule: &mut Message, value: &[u8]) {
    compare(rule, NFT_CMP_EQ, value);
}

fn compare(rule: &mut Message, how: u32, value: &[u8]) {
    expression(rule, b"cmp\0", |message| {
        number(message, NFTA_CMP_SREG, NFT_REG_1);
        number(message, NFTA_CMP_OP, how);
        message.nest(NFTA_CMP_DATA, |message| message.attribute(NFTA_DATA_VALUE, value));
    });
}

fn accept(rule: &mut Message) {
    verdict(rule, NF_ACCEPT);
}

fn verdict(rule: &mut Message, verdict: u32) {
    expression(rule, b"immediate\0", |message| {
        number(message, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        message.nest(NFTA_IMMEDIATE_DATA, |message| {
            message.nest(NFTA_DATA_VERDICT, |message| number(message, NFTA_VERDICT_CODE, verdict));
        });
    });
}

fn load(rule: &mut Message, register: u32, value: &[u8]) {
    expression(rule, b"immediate\0", |message| {
        number(message, NFTA_IMMEDIATE_DREG, register);
        message.nest(NFTA_IMMEDIATE_DATA, |message| message.attribute(NFTA_DATA_VALUE, value));
    });
}

fn transparent_proxy(rule: &mut Message, ipv6: bool) {
    expression(rule, b"tproxy\0", |message| {
        number(message, NFTA_TPROXY_FAMILY, family(ipv6).into());
        number(message, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
        number(message, NFTA_TPROXY_REG_PORT, NFT_REG_2);
    });
}

fn expression(rule: &mut Message, name: &[u8], data: impl FnOnce(&mut Message)) {
    rule.nest(NFTA_LIST_ELEM, |message| {
        message.attribute(NFTA_EXPR_NAME, name);
        message.nest(NFTA_EXPR_DATA, data);
    });
}

/// The kernel's tables speak network byte order.
fn number(message: &mut Message, kind: u16, value: u32) {
    message.attribute(kind, &value.to_be_bytes());
}
