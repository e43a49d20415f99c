//! The sidecar of a redroom slot: it plays the internet, relays the model's traffic, answers the tool hook, and reports
//! everything. It dials nobody and holds no key.

#![forbid(unsafe_code)]

mod app;
mod authority;
#[cfg(target_os = "linux")]
mod container;
mod conversation;
mod dns;
mod domain;
mod door;
mod drain;
/// What `tests/fuzz` reaches of this crate: functions that take bytes and assert. In tests they run again what was found once.
#[cfg(any(test, redroom_fuzzing))]
#[doc(hidden)]
#[path = "../../tests/fuzz/sidecar/mod.rs"]
pub mod fuzzing;
mod hook;
mod http2;
mod intake;
mod lease;
mod link;
mod listen;
mod losses;
#[cfg(target_os = "linux")]
pub mod namespace;
mod pipe;
mod relay;
mod reports;
pub mod search;
mod session;
mod slot;
mod tenant;
#[cfg(target_os = "linux")]
mod unanswered;
mod web;
pub mod wire;
mod witness;

pub use app::{ServeError, serve};
pub use authority::{Authority, AuthorityError};
#[cfg(target_os = "linux")]
pub use container::container_main;
pub use lease::Lease;
pub use link::harness_http2;
pub use listen::{ListenError, Listeners};

/// A slot is a Linux network namespace: elsewhere there is nothing to serve.
#[cfg(not(target_os = "linux"))]
pub fn container_main() -> std::process::ExitCode {
    eprintln!("redroom-sidecar: a slot needs Linux");
    std::process::ExitCode::FAILURE
}
