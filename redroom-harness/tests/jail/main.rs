//! The jail backend alone, against this machine's kernel. Where that refuses the trials are ignored, with the reason;
//! `REDROOM_REQUIRE=jail` makes them fail instead. Other systems have no jail, and no trials.

#[cfg(target_os = "linux")]
#[path = "../sandboxes/mod.rs"]
mod sandboxes;

#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod crowds;
#[cfg(target_os = "linux")]
mod deaths;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod holdings;
#[cfg(target_os = "linux")]
mod lifetime;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod refused;
#[cfg(target_os = "linux")]
mod trials;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use crate::trials::Body;

fn main() -> ExitCode {
    redroom_harness::init();
    play()
}

#[cfg(target_os = "linux")]
fn play() -> ExitCode {
    trials::play()
}

#[cfg(not(target_os = "linux"))]
fn play() -> ExitCode {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), Vec::new()).exit_code()
}
