//! A sidecar in a slot made of ports on this machine's loopback, driven from both sides.

#[cfg(target_os = "linux")]
mod container;
mod dns;
mod drain;
mod harness;
mod hook;
#[cfg(target_os = "linux")]
mod other_ports;
mod relay;
mod spellings;
mod tls;
mod web;
