//! What harness and sidecar say to each other, and the observations that a result is made of.
//!
//! One duplex byte stream (the slot container's stdin and stdout; an in-memory pipe in the jail) carries HTTP/2. The
//! **sidecar is its client**, the harness its server, because everything the agent does starts in the sidecar:
//!
//! | request | up (sidecar → harness) | down (harness → sidecar) |
//! | --- | --- | --- |
//! | `POST /session` | a stream of [`Report`] frames | a stream of [`Command`] frames |
//! | `POST /model` | the model request's body, its target and headers in [`MODEL_HEADERS`], what is kept from the model in [`WITHHELD_HEADERS`] | status, headers and body of the answer, streamed |
//! | `POST /hook` | the hook's payload, at most [`HOOK_PAYLOAD_LIMIT`] + 1 bytes | the hook's answer |
//!
//! Every request carries the run's [`Generation`] in [`GENERATION`]. A frame is a big-endian `u32` length and that many
//! bytes of JSON ([`frame`]). The harness treats all of it as hostile: bounded, parsed into these types, or refused.
//!
//! This module owns types only: no socket, no clock, no search.

pub mod frame;
mod hit;
mod model_call;
mod octets;
mod scenario;

pub use hit::{DnsQuestion, Found, Hit, Part, Protocol, Transport};
pub use model_call::{MODEL_HEADERS, ModelCallKind, ModelRequest, ModelTarget, Refusal, WITHHELD_HEADERS};
pub use octets::Octets;
pub use scenario::{CertificateAuthority, ModelEndpoint, PlantedPage, PlantedSecret, Scenario};

use serde::{Deserialize, Serialize};

/// The protocol's version. Harness and sidecar are one executable, so a difference is a bug, never a migration.
pub const VERSION: u32 = 2;

/// Header that carries the generation of a `/model` or `/hook` request.
pub const GENERATION: &str = "redroom-generation";

/// Header that carries the number of a model call, the same as [`ModelRequest::id`].
pub const CALL: &str = "redroom-call";

/// The most that a tool hook's payload may weigh, in bytes.
pub const HOOK_PAYLOAD_LIMIT: usize = 1_000_000;

/// Where the agent finds its model: an address that belongs to the documentation range, on a port that the agent cannot
/// take over because it lies below 1024.
pub const RELAY_ADDRESS: std::net::SocketAddrV4 =
    std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, 1), 81);

/// Where the agent's hooks are answered; a port of its own, so that neither can be starved through the other.
pub const HOOK_ADDRESS: std::net::SocketAddrV4 = std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, 1), 82);

/// Where the kernel brings what is meant for other ports, IPv4 and IPv6; out of the agent's reach for the same reason.
pub const OTHER_PORTS_ADDRESSES: [std::net::SocketAddr; 2] = [
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 83),
    std::net::SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 1)), 83),
];

/// Which tenancy of a slot something belongs to. Raised by every run; an observation of an older one can never be
/// credited to a newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// What the harness tells the sidecar.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A run moves in. Answered by [`Report::Begun`]; before that nothing is served.
    Begin {
        /// The run's generation.
        generation: Generation,
        /// What is planted, and what is searched for.
        scenario: Box<Scenario>,
    },
    /// The run's processes are gone. The sidecar reads what they left in accept queues and sockets, then answers
    /// [`Report::Drained`].
    End {
        /// The generation that ends.
        generation: Generation,
        /// How long the sidecar may wait for sockets to come to their end, in milliseconds.
        patience_ms: u64,
    },
    /// Nothing but a sign of life, by which the sidecar's [lease](crate::Lease) is renewed.
    Renew,
}

/// What the sidecar tells the harness. Hits and model requests are sent again whenever they grow: the last one with an
/// id counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The first frame: every listener is bound.
    Ready {
        /// [`VERSION`] of the sidecar.
        version: u32,
        /// Why a connection or datagram to another port than 80, 443 and 53 leaves no hit in this slot, if so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_ports_unseen: Option<String>,
    },
    /// The scenario of this generation is in force.
    Begun {
        /// As in the command.
        generation: Generation,
    },
    /// Something reached the fake internet.
    Hit {
        /// `None`: it fits no run.
        generation: Option<Generation>,
        /// What is known of it so far.
        hit: Box<Hit>,
    },
    /// The agent asked its model something.
    ModelRequest {
        /// `None`: it fits no run.
        generation: Option<Generation>,
        /// What is known of it so far.
        request: Box<ModelRequest>,
    },
    /// Nothing of this generation is left in any socket.
    Drained {
        /// As in the command.
        generation: Generation,
        /// Connections that were still open when patience ended, and were cut.
        cut: u32,
    },
    /// The sidecar could not do a part of its work; the run goes on.
    Fault {
        /// The generation that it happened to, if any.
        generation: Option<Generation>,
        /// A stable, lower-case code.
        code: String,
        /// What happened.
        detail: String,
    },
}
