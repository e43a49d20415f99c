//! An end-to-end suite on both backends from one source: the suite is this executable, started once for each.
//!
//! `REDROOM_BACKEND` chooses one. The list is the same for both, so that filters and nextest know nothing of this.

use std::process::{Command, ExitCode};

const CHOICE: &str = "REDROOM_BACKEND";

/// Plays the suite on the backend that was chosen, or on one after the other.
pub(crate) fn play(suite: fn() -> ExitCode) -> ExitCode {
    // A sidecar and a jail's processes are this executable too.
    redroom::init();
    let listing = std::env::args().any(|argument| argument == "--list");
    if listing || std::env::var_os(CHOICE).is_some_and(|choice| !choice.is_empty()) {
        return suite();
    }
    let mut code = ExitCode::SUCCESS;
    for backend in ["docker", "jail"] {
        println!("\non the backend {backend}:");
        let executable = std::env::current_exe().expect("this executable has a path");
        let ended = Command::new(executable).args(std::env::args_os().skip(1)).env(CHOICE, backend).status();
        let ended = ended.expect("this executable can be started").code();
        if ended != Some(0) {
            code = ExitCode::from(ended.and_then(|code| u8::try_from(code).ok()).unwrap_or(101));
        }
    }
    code
}
