//! The first thing in `main`: this executable may be asked to be something else.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::docker::SIDECAR_ARGUMENT;

static CALLED: AtomicBool = AtomicBool::new(false);

/// To be called first thing in `main` by every program that uses redroom without `redroom::main!()`: the sidecar of a slot is
/// this very executable, started again. Does not return where that is so.
pub fn init() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == SIDECAR_ARGUMENT) {
        let code = redroom_sidecar::container_main();
        std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 1 });
    }
    #[cfg(target_os = "linux")]
    if let Some(code) = crate::backend::jail::live_if_asked() {
        std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 1 });
    }
    CALLED.store(true, Ordering::Relaxed);
}

/// Whether [`init`] was called: without it a sidecar would be another run of the program.
pub(crate) fn was_called() -> bool {
    CALLED.load(Ordering::Relaxed)
}
