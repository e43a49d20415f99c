//! The sidecar as a program: see [`redroom_sidecar::container_main`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    redroom_sidecar::container_main()
}
