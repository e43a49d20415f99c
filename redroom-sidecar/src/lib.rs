//! The sidecar of a redroom slot: it plays the internet, relays the model's traffic, answers the tool hook, and reports
//! everything. It dials nobody and holds no key.
//!
//! A library with a thin binary: in Docker it is process 1 of a slot's container ([`container_main`]), and anywhere else a
//! task of the harness ([`serve`]), the same code either way.

#![forbid(unsafe_code)]

mod app;
pub mod authority;
mod dns;
mod hook;
mod listen;
pub mod namespace;
mod relay;
pub mod search;
mod stdio;
mod tenancy;
mod uplink;
mod web;
pub mod wire;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use app::{ServeError, container_main, serve};
pub use listen::{BindError, Listeners, Service};
pub use uplink::LinkError;

/// A slot's own global addresses on `lo` (documentation ranges).
pub const SLOT_ADDRESSES: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 10), Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x10));
