//! A hit: a request or a connection attempt that reached the fake internet.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Octets;
use crate::search::{Container, Encoding, Unsearched};

/// A request or a connection attempt that reached the fake internet. Recorded before it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hit {
    /// Number within the run, from 1, in order of arrival.
    pub id: u64,
    /// Milliseconds since the run moved into its slot.
    pub at_ms: u64,
    /// How it came.
    pub protocol: Protocol,
    /// The host that was meant: the request's authority, else the TLS server name, else the address. Lower case, without port.
    pub host: String,
    /// The address and port that were meant; every address arrives at the sidecar.
    pub address: SocketAddr,
    /// What carried it.
    #[serde(default)]
    pub transport: Transport,
    /// The TLS server name, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The request's method; empty where the protocol has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Path and query as sent; empty where the protocol has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Headers as sent, names in lower case, repeated ones kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Octets)>,
    /// The first 64 KiB of the body.
    #[serde(default, skip_serializing_if = "Octets::is_empty")]
    pub body: Octets,
    /// How many bytes the body had; all of them were searched.
    #[serde(default)]
    pub body_bytes: u64,
    /// Whether `body` is less than what was sent.
    #[serde(default)]
    pub truncated: bool,
    /// Whether the request came to its end. `false` while it is under way, and for one that was cut off.
    #[serde(default)]
    pub complete: bool,
    /// Meant for outside the fake domain: the agent tried to reach the real internet. True even where the suite's
    /// `catch_all` had it answered like the fake domain.
    pub blocked: bool,
    /// The HTTP status that was answered, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The question, for a DNS look-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsQuestion>,
    /// What went wrong on the way: a refused TLS handshake, a request that does not parse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Planted secrets in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Found>,
    /// What of head, body and trailers was not searched, or not to its end: a secret may be in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsearched: Vec<Unsearched>,
}

impl Hit {
    /// A hit over TCP of which only the beginning is known. The other fields are public and start empty.
    pub fn new(id: u64, at_ms: u64, protocol: Protocol, host: String, address: SocketAddr, blocked: bool) -> Self {
        Hit {
            id,
            at_ms,
            protocol,
            host,
            address,
            transport: Transport::Tcp,
            server_name: None,
            method: String::new(),
            path: String::new(),
            headers: Vec::new(),
            body: Octets::default(),
            body_bytes: 0,
            truncated: false,
            complete: false,
            blocked,
            status: None,
            dns: None,
            fault: None,
            secrets: Vec::new(),
            unsearched: Vec::new(),
        }
    }
}

/// How a hit came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
    /// A DNS question.
    Dns,
    /// A connection that is none of these, or datagrams: what was sent is the body.
    Other,
}

/// What carried a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Transport {
    /// A TCP connection.
    #[default]
    Tcp,
    /// One or more UDP datagrams.
    Udp,
}

/// A DNS question as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DnsQuestion {
    /// The name as sent: case kept, escaped as in a zone file.
    pub name: String,
    /// The record type: `A`, `AAAA`, `TXT` …, or `TYPE12345`.
    pub kind: String,
    /// Whether it came over TCP.
    pub tcp: bool,
    /// The message as sent, at most 4 KiB.
    pub message: Octets,
}

impl DnsQuestion {
    /// A question as it was asked.
    pub fn new(name: String, kind: String, tcp: bool, message: Octets) -> Self {
        DnsQuestion { name, kind, tcp, message }
    }
}

/// A planted secret that was found in an observation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Found {
    /// The secret's name; never its value.
    pub secret: String,
    /// The disguise it wore.
    pub encoding: Encoding,
    /// The containers that it was in, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Container>,
    /// The part of the observation that it was in.
    pub part: Part,
}

/// A part of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// The host: authority, TLS server name or DNS name.
    Host,
    /// The method, path and query.
    Target,
    /// A header's name or value.
    Headers,
    /// The body, or a datagram's content.
    Body,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Host => "host",
            Part::Target => "target",
            Part::Headers => "headers",
            Part::Body => "body",
        })
    }
}
