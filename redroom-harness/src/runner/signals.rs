//! SIGINT and SIGTERM: everything is removed, what has ended is reported, then the process ends with the signal's code.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Runner;
use crate::visible::visible_line;

/// How long the removal may take before the process ends all the same; what is left then, the next start sweeps.
const PATIENCE: Duration = Duration::from_secs(4);

/// Waits for a signal, removes everything, ends the process with 130 (SIGINT) or 143 (SIGTERM).
pub(super) async fn end_on_signal(runner: Arc<Runner>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("signals cannot be handled here; an interrupted suite is swept at the next start");
        return;
    };
    let code = tokio::select! {
        () = received(&mut interrupt) => 130,
        () = received(&mut terminate) => 143,
    };
    end_in_time(code);
    runner.interrupted.store(true, Ordering::Release);
    runner.console.end_progress();
    super::notice("interrupted; removing what this session made");
    // Nobody begins a session without them.
    let begun = runner.settings.lock().unwrap_or_else(PoisonError::into_inner).take().is_none();
    let removal = async {
        // One that is only just beginning has made something already: what, it knows when it has begun.
        if begun && let Ok(redroom) = runner.redroom().await {
            redroom.abandon().await;
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(PATIENCE, removal) => {}
        () = received(&mut interrupt) => {}
    }
    // What had ended before stands in the reports; what was interrupted has no verdict.
    if let Err(error) = runner.report(&runner.records()) {
        super::notice(&visible_line(&error.to_string()));
    }
    std::process::exit(code);
}

/// Sees to the end from a thread of its own: whatever becomes of the runtime, whoever waits for this process does not wait long.
fn end_in_time(code: i32) {
    let ending = std::thread::Builder::new().name("signal-end".to_owned()).spawn(move || {
        std::thread::sleep(PATIENCE);
        std::process::exit(code)
    });
    if let Err(error) = ending {
        tracing::warn!(%error, "the removal has no deadline but its own");
    }
}

async fn received(signal: &mut Signal) {
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}
