//! What is told of a session when it is over, and while it lives: to a person at a terminal, to a CI job.
//!
//! A view, never the evidence: it is made of plain records, and everything in it is made safe and short.

pub(crate) mod format;
pub(crate) mod junit;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod screen;
pub(crate) mod story;
pub(crate) mod summary;
