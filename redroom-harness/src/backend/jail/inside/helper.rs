//! A sandbox's helper: goes into new namespaces, starts the first process there, and tells how that ended. What the first process
//! is and does, it tells by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, waitpid};

use super::super::channel::{receive, send};
use super::super::protocol::{FromSandbox, ToSandbox};
use super::super::sys::{Fork, Kernel, Linux, Namespaces, Refused, Step, fork};
use super::filter::Filters;
use super::first;

/// Does all of it, and ends the process.
pub(super) fn live(socket: OwnedFd, filters: &seccompiler::Result<Filters>) -> ! {
    let lived = serve(socket.as_fd(), filters);
    let code = match lived {
        Ok(()) => 0,
        Err(refused) => {
            // Where nobody listens any more, nobody wants to know.
            let _ = send(socket.as_fd(), &FromSandbox::Refused(refused), &[]);
            1
        }
    };
    std::process::exit(code)
}

fn serve(socket: BorrowedFd<'_>, filters: &seccompiler::Result<Filters>) -> Result<(), Refused> {
    let filters = filters.as_ref().map_err(|error| Refused::new("seccomp", error))?;
    Linux.die_with_parent().step("death signal")?;
    tell(socket, &FromSandbox::Helper { pid: getpid().as_raw_nonzero().get() }, &[])?;
    let Some((ToSandbox::Begin, doors)) = receive(socket).step("begin")? else { return Ok(()) };
    for door in doors {
        rustix::io::write(&door, b"0").step("enter a control group")?;
    }
    Linux.unshare(Namespaces::Sandbox).step("unshare sandbox")?;
    match fork().step("fork")? {
        Fork::Child => first::live(socket, filters),
        Fork::Parent(first) => {
            let status = wait_for(first).step("wait")?;
            send(socket, &FromSandbox::Ended(status), &[]).step("report")
        }
    }
}

/// Says something, and shows who says it before all else that comes along: a descriptor means the process itself, whatever its
/// number is in which namespace.
pub(super) fn tell(socket: BorrowedFd<'_>, message: &FromSandbox, more: &[BorrowedFd<'_>]) -> Result<(), Refused> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).step("pidfd_open")?;
    send(socket, message, &[&[own.as_fd()], more].concat()).step("report")
}

fn wait_for(pid: Pid) -> io::Result<i32> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(code(status)),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// How a process ended, as a shell tells it.
pub(super) fn code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
