//! A slot's keeper: a network of its own, and nobody in it but the sandboxes that it starts one after the other.

use std::cell::LazyCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use redroom_sidecar::Listeners;
use redroom_sidecar::namespace::{NamespaceError, make_every_address_local};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, ipproto, socket};
use rustix::process::{WaitOptions, getegid, geteuid};

use super::super::channel::{receive, send};
use super::super::protocol::{FromKeeper, ToKeeper};
use super::super::sys::{Fork, Kernel, Linux, Namespaces, Refused, Step, close_from, fork};
use super::filter::Filters;
use super::helper;
use crate::backend::AGENT_UID;

/// In a new network the agent cannot have the sidecar's ports.
const FIRST_FREE_PORT: (&str, &str) = ("/proc/sys/net/ipv4/ip_unprivileged_port_start", "1024");

/// Serves the harness until it goes away, or is silent for too long.
pub(super) fn live() -> io::Result<()> {
    // Whatever came along from the program that was started.
    close_from(3)?;
    let harness = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let mut silence = None;
    // Made once, for helpers are copies of this process.
    let filters = LazyCell::new(Filters::new);
    loop {
        if !speaks(harness.as_fd(), silence)? {
            // A harness that is stopped: what lives in this network is killed by the kernel when its keeper ends.
            return Err(io::ErrorKind::TimedOut.into());
        }
        let Some((message, fds)) = receive(harness.as_fd())? else { return Ok(()) };
        match message {
            ToKeeper::Renew => {}
            ToKeeper::Open { privileged, silence: longest } => match open(&Linux, privileged) {
                Ok(sockets) => {
                    silence = Some(longest);
                    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
                    send(harness.as_fd(), &FromKeeper::Opened, &sockets)?;
                }
                Err(refused) => return send(harness.as_fd(), &FromKeeper::Refused(refused), &[]),
            },
            ToKeeper::Sandbox => {
                let socket = fds.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
                LazyCell::force(&filters);
                match fork()? {
                    Fork::Child => {
                        drop(harness);
                        helper::live(socket, &filters);
                    }
                    Fork::Parent(_) => {}
                }
            }
        }
        // Helpers of sandboxes that are gone.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}

/// Whether the harness says something, or goes away, within this time.
fn speaks(harness: BorrowedFd<'_>, silence: Option<Duration>) -> io::Result<bool> {
    let silence =
        silence.map(|time| Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() });
    loop {
        match poll(&mut [PollFd::new(&harness, PollFlags::IN)], silence.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Makes the network, and the sidecar's sockets in it.
fn open(kernel: &dyn Kernel, privileged: bool) -> Result<Vec<OwnedFd>, Refused> {
    if privileged {
        kernel.unshare(Namespaces::Network).step("unshare")?;
    } else {
        // Asked for before: inside, they are something else.
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        kernel.unshare(Namespaces::UserAndNetwork).step("unshare")?;
        kernel.write("/proc/self/setgroups", "deny").step("setgroups")?;
        kernel.write("/proc/self/uid_map", &format!("{AGENT_UID} {uid} 1")).step("uid_map")?;
        kernel.write("/proc/self/gid_map", &format!("{AGENT_UID} {gid} 1")).step("gid_map")?;
    }
    make_every_address_local().map_err(network_refused)?;
    let (setting, wanted) = FIRST_FREE_PORT;
    let found = std::fs::read_to_string(setting).step(setting)?;
    if found.trim() != wanted {
        return Err(Refused::new(setting, format!("it is {:?} in a new network, not {wanted}", found.trim())));
    }
    // The kernel would answer pings to any address, unseen by the sidecar. Which groups may ping cannot be read here.
    if socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)).is_ok() {
        return Err(Refused::new("ping_group_range", "everybody may ping in a new network"));
    }
    let listeners = Listeners::bind().map_err(|error| {
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        let errno = source.and_then(io::Error::raw_os_error).unwrap_or(0);
        Refused { step: "bind".to_owned(), errno, detail: error.to_string() }
    })?;
    // Others of the same user could look in, and take what it holds.
    kernel.close_to_others().step("dumpable")?;
    Ok(listeners.into_sockets())
}

fn network_refused(error: NamespaceError) -> Refused {
    let errno = match &error {
        NamespaceError::Refused { source, .. } | NamespaceError::Unreachable(source) => source.raw_os_error(),
        _ => None,
    };
    Refused { step: "network".to_owned(), errno: errno.unwrap_or(0), detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn a_refusal_names_its_step() {
        for (what, step) in [
            ("unshare UserAndNetwork", "unshare"),
            ("write /proc/self/setgroups", "setgroups"),
            ("write /proc/self/uid_map", "uid_map"),
            ("write /proc/self/gid_map", "gid_map"),
        ] {
            let refused = open(&Fake::refusing(what, Errno::PERM), false).unwrap_err();
            assert_eq!((refused.step.as_str(), refused.errno), (step, Errno::PERM.raw_os_error()));
        }
        let refused = open(&Fake::refusing("unshare Network", Errno::NOSPC), true).unwrap_err();
        assert_eq!((refused.step.as_str(), refused.errno), ("unshare", Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn groups_are_shut_before_a_user_namespace_gets_its_own() {
        let kernel = Fake::refusing("write /proc/self/gid_map", Errno::PERM);
        let _ = open(&kernel, false);
        assert!(kernel.position("write /proc/self/setgroups") < kernel.position("write /proc/self/gid_map"));
    }
}
