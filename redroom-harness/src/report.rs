//! What is told of a session when it is over: to a person at a terminal, to a CI job.
//!
//! A view, never the evidence: it is made of plain records, and everything in it is made safe and short.

pub(crate) mod junit;
