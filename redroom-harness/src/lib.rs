//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![forbid(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
mod excerpt;

pub use error::{By, Call, Error, Result};
