//! Processes of ours, held by descriptors: no other can be meant by one, whatever becomes of its number.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use super::sys::watched;
use crate::error::{Error, Result};

/// How long a process may take to end when it has been killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process. It ends with this value.
#[derive(Debug)]
pub(super) struct Process(AsyncFd<OwnedFd>);

impl Process {
    /// Takes a descriptor over; needs a runtime.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        watched(descriptor, Interest::READABLE).map(Process)
    }

    /// A second descriptor of it, which does not end it.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.get_ref().try_clone()
    }

    /// Kills it, and waits until it is gone: a first process ends after all others of its namespace.
    pub(super) async fn end(&self) -> Result<()> {
        self.kill();
        match timeout(PATIENCE, self.0.readable()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(cannot("wait for the end of a sandbox", &error)),
            Err(_) => Err(cannot("end a sandbox", &io::ErrorKind::TimedOut.into())),
        }
    }

    /// Whether it is there no more.
    pub(super) fn has_ended(&self) -> bool {
        let mut watched = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
        poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// One that has ended cannot be killed again.
    fn kill(&self) {
        let _ = pidfd_send_signal(self.0.get_ref(), Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processes of ours that a sandbox hangs on.
#[derive(Debug)]
pub(super) struct Processes {
    /// Ends by itself after the first one.
    pub(super) _helper: Process,
    pub(super) first: Process,
}

impl Processes {
    /// Kills the first process and with it all others of the sandbox, and waits until they are gone.
    pub(super) async fn end_first(&self) -> Result<()> {
        self.first.end().await
    }
}

fn cannot(what: &str, error: &io::Error) -> Error {
    Error::backend("sandbox_failed", format!("cannot {what}: {error}"))
}
