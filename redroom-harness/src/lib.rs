//! The engine of redroom: suites, slots, backends, agents, evidence. Use it through the `redroom` crate.

#![forbid(unsafe_code)]

pub mod agent;
pub mod backend;
mod error;
mod options;
pub mod planting;
pub mod registry;
mod run;

pub use error::{By, Call, Error, Result};
pub use options::RunOptions;
pub use planting::{Body, File, Files, Page, Pages, Secret, Secrets, canary, dir, unplanted};
pub use run::Run;

#[doc(hidden)]
pub use inventory;
