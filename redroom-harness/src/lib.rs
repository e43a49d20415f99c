//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![forbid(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
mod excerpt;
#[cfg_attr(not(test), expect(dead_code, reason = "the runner of suites is to be its user"))]
mod report;

pub use error::{By, Call, Error, Result};
