//! The whole life of a sidecar that has a container to itself: set-up with privileges, then service without.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Builder;

use crate::app::{ServeError, serve};
use crate::lease::{LastHeard, Lease, Listened};
use crate::listen::{ListenError, Listeners};
use crate::namespace::{NamespaceError, give_up_capabilities, make_every_address_local};

/// Why the sidecar could not do its work.
#[derive(Debug, thiserror::Error)]
enum ContainerError {
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("no runtime can be started")]
    Runtime(#[source] io::Error),
    #[error("{variable} = {0:?} is no lease", variable = Lease::VARIABLE)]
    Lease(String),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Makes every address of this network namespace local, binds the slot's sockets, gives up all capabilities, and serves
/// the slot over standard input and output until the harness ends it, or is silent for longer than the [`Lease`] that the
/// environment's [`Lease::VARIABLE`] gives.
///
/// Has to be called before the process has a second thread. Nothing but the protocol is written to standard output;
/// what went wrong goes to standard error.
pub fn container_main() -> ExitCode {
    match live() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redroom-sidecar: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn live() -> Result<(), ContainerError> {
    let lease = lease()?;
    make_every_address_local()?;
    let listeners = Listeners::bind()?;
    give_up_capabilities()?;
    let heard = LastHeard::now();
    std::thread::Builder::new()
        .name("harness-watch".to_owned())
        .spawn({
            let heard = heard.clone();
            move || die_with_harness(lease, &heard)
        })
        .map_err(ContainerError::Runtime)?;
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(ContainerError::Runtime)?;
    let link = Listened { link: tokio::io::join(tokio::io::stdin(), tokio::io::stdout()), heard };
    let served = runtime.block_on(serve(listeners, link));
    // A read of standard input may still be under way, and cannot be taken back.
    runtime.shutdown_background();
    Ok(served?)
}

fn lease() -> Result<Lease, ContainerError> {
    match std::env::var(Lease::VARIABLE) {
        Ok(text) => Lease::from_variable(&text).ok_or(ContainerError::Lease(text)),
        Err(_) => Ok(Lease::default()),
    }
}

/// Ends the process when nobody holds the other end of its standard input any more, or whoever does is silent for too long, even
/// if the protocol does not get to notice that: because nobody takes what is on its standard output, say.
fn die_with_harness(lease: Lease, heard: &LastHeard) {
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::RDHUP)];
    loop {
        let Some(rest) = heard.rest_of(lease.end()) else {
            eprintln!("redroom-sidecar: the harness has been silent for {} s", lease.end().as_secs_f64());
            std::process::exit(1)
        };
        // A little more than the rest: at the next look it is over, unless something came.
        let rest = rest + Duration::from_millis(5);
        let timeout = Timespec { tv_sec: rest.as_secs().cast_signed(), tv_nsec: rest.subsec_nanos().into() };
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
            Ok(_) if watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) => {
                std::process::exit(0)
            }
            Ok(_) => return,
        }
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
