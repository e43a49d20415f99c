//! The first thing in `main`: this executable may be asked to be something else.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::docker::SIDECAR_ARGUMENT;

static CALLED: AtomicBool = AtomicBool::new(false);

/// To be called first thing in `main` by every program that uses redroom without `redroom::main!()`: the sidecar of a slot is
/// this very executable, started again. Does not return where that is so.
///
/// First means before there is another thread, for a thread keeps the capabilities that the sidecar gives up: not under
/// `#[tokio::main]`, where it does not count as called.
///
/// ```no_run
/// # use redroom_harness as redroom;
/// use redroom::{Redroom, RunOptions, Shell, Suite};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     redroom::init();
///     tokio::runtime::Runtime::new()?.block_on(async {
///         let redroom = Redroom::start(Suite::new().agent(Shell::new())).await?;
///         let run = redroom.start_run(RunOptions::new().workspace([("notes.txt", "hello")])).await?;
///         run.send("cat notes.txt").await?;
///         println!("{} hits", run.finish().await?.hits.len());
///         redroom.stop().await;
///         Ok(())
///     })
/// }
/// ```
pub fn init() {
    if tokio::runtime::Handle::try_current().is_ok() {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_from_within_a_runtime_comes_too_late_and_does_not_count() {
        let before = was_called();
        init();
        assert_eq!(was_called(), before);
        assert!(!before, "no other test calls it");
    }
}
