//! The whole life of a sidecar that has a container to itself: set-up with privileges, then service without.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use tokio::runtime::Builder;

use crate::app::{ServeError, serve};
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
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Makes every address of this network namespace local, binds the slot's sockets, gives up all capabilities, and serves
/// the slot over standard input and output until the harness ends it.
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
    make_every_address_local()?;
    let listeners = Listeners::bind()?;
    give_up_capabilities()?;
    std::thread::Builder::new()
        .name("input-watch".to_owned())
        .spawn(die_with_input)
        .map_err(ContainerError::Runtime)?;
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(ContainerError::Runtime)?;
    let link = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
    let served = runtime.block_on(serve(listeners, link));
    // A read of standard input may still be under way, and cannot be taken back.
    runtime.shutdown_background();
    Ok(served?)
}

/// Ends the process when nobody holds the other end of its standard input any more, even if the protocol does not get to
/// read that, because nobody takes what is on its standard output.
fn die_with_input() {
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::RDHUP)];
    loop {
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
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
