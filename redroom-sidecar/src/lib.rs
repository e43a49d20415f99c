//! The sidecar of a redroom slot: it plays the internet, relays the model's traffic, answers the tool hook, and reports
//! everything. It dials nobody and holds no key.

#![forbid(unsafe_code)]

pub mod search;
pub mod wire;
