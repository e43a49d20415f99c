//! Builds a sandbox's root, in two parts: room for the files that are planted from outside, which needs no plan; and the rest.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::super::layout::{HOST_NAME, Step as Piece};
use super::super::protocol::Spec;
use super::super::sys::{Kernel, Refused, Rights, Step};

/// Where everything is built. It hides what this machine has there, which is never let in: no program lies there either.
const AREA: &str = "/sys";
/// The new root.
const SITE: &str = "/sys/root";
/// Where the agent's trees and root's files are planted, until they are in their places in the new root.
const OWN: &str = "/sys/own";
const FIXED: &str = "/sys/fixed";
/// What is laid over folders that the agent is not to look into.
const EMPTY: &str = "/sys/empty";
const AREA_ROOM: &str = "mode=755,size=1m";
/// Room for the root's own folders, and for files that are planted for root.
const ROOT_ROOM: &str = "mode=755,size=64m";
const FIXED_ROOM: &str = "mode=755,size=4g";
/// More than anybody plants: how much the agent may add is set when that is known.
const OWN_ROOM: &str = "mode=755,size=1t,nr_inodes=100m";
/// As much as other sandboxes give.
const SHARED_MEMORY: &str = "mode=1777,size=64m";
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// What of `/proc` could change the machine, were its owner's rights there.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
/// What of `/proc` tells more than the sandbox is to know.
const HIDDEN: [&str; 5] = ["kcore", "keys", "latency_stats", "sched_debug", "timer_list"];
/// Its folders that tell of the machine's devices.
const HIDDEN_FOLDERS: [&str; 3] = ["acpi", "asound", "scsi"];

/// A root that waits for what is planted.
pub(super) struct Staging {
    /// The agent's trees.
    pub(super) own: OwnedFd,
    /// Root's files.
    pub(super) fixed: OwnedFd,
}

/// Makes room for what is planted.
pub(super) fn stage(kernel: &dyn Kernel) -> Result<Staging, Refused> {
    kernel.keep_mounts_to_itself().step("propagation")?;
    kernel.name_host(HOST_NAME).step("hostname")?;
    kernel.mount("tmpfs", AREA, AREA_ROOM).step("tmpfs")?;
    for (at, data) in [(SITE, ROOT_ROOM), (OWN, OWN_ROOM), (FIXED, FIXED_ROOM)] {
        kernel.folder(at, 0o700).step("staging")?;
        kernel.mount("tmpfs", at, data).step("tmpfs")?;
    }
    Ok(Staging { own: kernel.open_folder(OWN).step("staging")?, fixed: kernel.open_folder(FIXED).step("staging")? })
}

/// Builds the root around what was planted, shuts it and moves in. What was in the area stays behind with the old root.
pub(super) fn build(kernel: &dyn Kernel, spec: &Spec, staging: Staging) -> Result<(), Refused> {
    drop(staging);
    let room = format!("size={},nr_inodes={}", spec.room, spec.files);
    kernel.change_room(OWN, &room).step("room")?;
    for piece in &spec.steps {
        lay(kernel, piece)?;
    }
    devices(kernel)?;
    processes(kernel)?;
    for piece in &spec.steps {
        match piece {
            Piece::Own { path, at, file, make } => {
                place_holder(kernel, at, *file, *make)?;
                bind(kernel, &format!("{OWN}{path}"), at, Rights::Plain)?;
            }
            Piece::Fixed { number, at, make } => {
                place_holder(kernel, at, true, *make)?;
                bind(kernel, &format!("{FIXED}/{number}"), at, Rights::ReadOnly)?;
            }
            _ => {}
        }
    }
    for piece in &spec.steps {
        if let Piece::Cover { at } = piece {
            kernel.restrict_mount(&site(at), Rights::ReadOnly).step(format!("shut {at}"))?;
        }
    }
    kernel.restrict_mount(SITE, Rights::ReadOnly).step("shut root")?;
    kernel.enter_root(SITE).step("pivot_root")
}

fn site(at: &str) -> String {
    format!("{SITE}{at}")
}

fn lay(kernel: &dyn Kernel, piece: &Piece) -> Result<(), Refused> {
    match piece {
        Piece::Folder { at, mode } => kernel.folder(&site(at), *mode).step(format!("folder {at}")),
        Piece::Cover { at } => kernel.mount("tmpfs", &site(at), ROOT_ROOM).step(format!("tmpfs {at}")),
        Piece::Symlink { at, target } => kernel.symlink(&site(at), target).step(format!("symlink {at}")),
        Piece::Bind { from, at, file, make } => {
            let tree = match kernel.copy_tree(from) {
                // It is not there any more since the plan was made, or shut: then the agent does without.
                Err(Errno::NOENT | Errno::ACCESS) if *make => return Ok(()),
                tree => tree.step(format!("bind {from}"))?,
            };
            place_holder(kernel, at, *file, *make)?;
            attach(kernel, &tree, at, Rights::ReadOnly)
        }
        Piece::Own { .. } | Piece::Fixed { .. } => Ok(()),
    }
}

fn place_holder(kernel: &dyn Kernel, at: &str, file: bool, make: bool) -> Result<(), Refused> {
    match (make, file) {
        (false, _) => Ok(()),
        (true, true) => kernel.file(&site(at)).step(format!("file {at}")),
        (true, false) => kernel.folder(&site(at), 0o755).step(format!("folder {at}")),
    }
}

fn bind(kernel: &dyn Kernel, from: &str, at: &str, rights: Rights) -> Result<(), Refused> {
    let tree = kernel.copy_tree(from).step(format!("bind {at}"))?;
    attach(kernel, &tree, at, rights)
}

fn attach(kernel: &dyn Kernel, tree: &OwnedFd, at: &str, rights: Rights) -> Result<(), Refused> {
    kernel.restrict_tree(tree, rights).step(format!("mount_setattr {at}"))?;
    kernel.attach(tree, &site(at)).step(format!("attach {at}"))
}

/// The devices that every program takes for granted, and terminals of its own.
fn devices(kernel: &dyn Kernel) -> Result<(), Refused> {
    for name in DEVICES {
        let at = format!("/dev/{name}");
        place_holder(kernel, &at, true, true)?;
        bind(kernel, &at, &at, Rights::Device)?;
    }
    for (name, target) in DEVICE_LINKS {
        kernel.symlink(&site(&format!("/dev/{name}")), target).step("symlink /dev")?;
    }
    kernel.folder(&site("/dev/pts"), 0o755).step("folder /dev/pts")?;
    kernel.mount("devpts", &site("/dev/pts"), "newinstance,ptmxmode=0666,mode=620").step("devpts")?;
    kernel.folder(&site("/dev/shm"), 0o1777).step("folder /dev/shm")?;
    kernel.mount("tmpfs", &site("/dev/shm"), SHARED_MEMORY).step("tmpfs /dev/shm")
}

/// The sandbox's own processes, and of the machine what programs need to know.
fn processes(kernel: &dyn Kernel) -> Result<(), Refused> {
    kernel.mount("proc", &site("/proc"), "").step("proc")?;
    for name in READ_ONLY {
        let path = site(&format!("/proc/{name}"));
        over(kernel, &path, &path, Rights::ReadOnly)?;
    }
    for name in HIDDEN {
        over(kernel, "/dev/null", &site(&format!("/proc/{name}")), Rights::Device)?;
    }
    kernel.folder(EMPTY, 0o755).step("folder")?;
    for name in HIDDEN_FOLDERS {
        over(kernel, EMPTY, &site(&format!("/proc/{name}")), Rights::ReadOnly)?;
    }
    Ok(())
}

/// Lays one thing over another, where that is there: kernels differ. Looked at before, for to let go of a copy that was attached
/// nowhere takes the kernel longer than all the rest.
fn over(kernel: &dyn Kernel, from: &str, path: &str, rights: Rights) -> Result<(), Refused> {
    if !kernel.exists(path).step(format!("look at {path}"))? {
        return Ok(());
    }
    let tree = kernel.copy_tree(from).step(format!("bind {path}"))?;
    kernel.restrict_tree(&tree, rights).step(format!("mount_setattr {path}"))?;
    kernel.attach(&tree, path).step(format!("attach {path}"))
}

#[cfg(test)]
mod tests;
