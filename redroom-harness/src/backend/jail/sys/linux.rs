//! The real kernel.

use std::fs::File;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, chmod, mkdir, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{DumpableBehavior, Gid, Pid, Signal, Uid, pivot_root};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::{Kernel, Namespaces, Rights};

/// The kernel that this process runs on.
pub(in super::super) struct Linux;

/// Which side of a fork this is.
pub(in super::super) enum Fork {
    Child,
    Parent(Pid),
}

/// Splits the process. For processes with one thread only.
pub(in super::super) fn fork() -> Result<Fork, Errno> {
    // SAFETY: every caller is a helper that was started for this and never starts a thread, so that the child is a whole copy:
    // no lock is held by a thread that is not there.
    match unsafe { libc::fork() } {
        -1 => Err(last_error()),
        0 => Ok(Fork::Child),
        pid => Pid::from_raw(pid).map(Fork::Parent).ok_or(Errno::INVAL),
    }
}

/// Closes every descriptor from this number on.
pub(in super::super) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: called first thing in a helper, before anything in it owns a descriptor of these numbers.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })
}

/// A descriptor that becomes readable when a child has ended, instead of a signal.
pub(in super::super) fn signals_of_children() -> Result<OwnedFd, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made by `sigemptyset` before anything reads it; no pointer is kept by any of the calls; the new
    // descriptor is owned by nobody else.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()).into())?;
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(last_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Blocks and ignores no signal any more, as this program's own parent may have it do: what is executed inherits that.
pub(in super::super) fn reset_signals() -> Result<(), Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: as above; that some numbers are no signals, or not to be changed, is an error and nothing else.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(set.as_mut_ptr());
        check(libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut()).into())
    }
}

impl Kernel for Linux {
    fn unshare(&self, namespaces: Namespaces) -> Result<(), Errno> {
        let flags = match namespaces {
            Namespaces::Network => UnshareFlags::NEWNET,
            Namespaces::UserAndNetwork => UnshareFlags::NEWUSER | UnshareFlags::NEWNET,
            Namespaces::Sandbox => {
                UnshareFlags::NEWNS
                    | UnshareFlags::NEWPID
                    | UnshareFlags::NEWIPC
                    | UnshareFlags::NEWUTS
                    | UnshareFlags::NEWCGROUP
            }
        };
        // SAFETY: the descriptor table stays as it is, and the process has no other thread.
        unsafe { rustix::thread::unshare_unsafe(flags) }
    }

    fn write(&self, path: &str, content: &str) -> Result<(), Errno> {
        let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(file)
            .write_all(content.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn keep_mounts_to_itself(&self) -> Result<(), Errno> {
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
    }

    fn mount(&self, kind: &str, at: &str, data: &str) -> Result<(), Errno> {
        let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
        let flags = match kind {
            "devpts" => MountFlags::NOSUID | MountFlags::NOEXEC,
            "proc" => MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
            _ => MountFlags::NOSUID | MountFlags::NODEV,
        };
        mount(kind, at, kind, flags, data.as_c_str())
    }

    fn change_room(&self, at: &str, data: &str) -> Result<(), Errno> {
        mount_remount(at, MountFlags::NOSUID | MountFlags::NODEV, data)
    }

    fn copy_tree(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        open_tree(CWD, path, flags)
    }

    fn restrict_tree(&self, tree: &OwnedFd, rights: Rights) -> Result<(), Errno> {
        restrict(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, rights)
    }

    fn attach(&self, tree: &OwnedFd, at: &str) -> Result<(), Errno> {
        move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }

    fn restrict_mount(&self, path: &str, rights: Rights) -> Result<(), Errno> {
        let path = std::ffi::CString::new(path).map_err(|_| Errno::INVAL)?;
        restrict(libc::AT_FDCWD, &path, 0, rights)
    }

    fn exists(&self, path: &str) -> Result<bool, Errno> {
        match accessat(CWD, path, Access::EXISTS, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn folder(&self, path: &str, mode: u32) -> Result<(), Errno> {
        mkdir(path, Mode::from_raw_mode(mode))?;
        // Whatever the umask is.
        chmod(path, Mode::from_raw_mode(mode))
    }

    fn file(&self, path: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        open(path, flags, Mode::from_raw_mode(0o644)).map(drop)
    }

    fn symlink(&self, path: &str, target: &str) -> Result<(), Errno> {
        rustix::fs::symlink(target, path)
    }

    fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    fn enter_root(&self, path: &str) -> Result<(), Errno> {
        rustix::process::chdir(path)?;
        pivot_root(".", ".")?;
        // The old root lies over the new one now.
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")
    }

    fn name_host(&self, name: &str) -> Result<(), Errno> {
        rustix::system::sethostname(name.as_bytes())
    }

    fn limit(&self, resource: u32, value: u64) -> Result<(), Errno> {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the first call writes the structure, the second reads it; neither keeps the pointer.
        unsafe {
            check(libc::prlimit64(0, resource as _, ptr::null(), &mut limit).into())?;
            // A plain user cannot raise what the system allows at most.
            let most = if rustix::process::geteuid().is_root() { value } else { value.min(limit.rlim_max) };
            limit = libc::rlimit64 { rlim_cur: most, rlim_max: most };
            check(libc::prlimit64(0, resource as _, &limit, ptr::null_mut()).into())
        }
    }

    fn close_to_others(&self) -> Result<(), Errno> {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
    }

    fn die_with_parent(&self) -> Result<(), Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
    }

    fn become_user(&self, id: u32) -> Result<(), Errno> {
        rustix::thread::set_thread_groups(&[])?;
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    }

    fn shut_bounding_set(&self) -> Result<(), Errno> {
        for number in 0..64 {
            // SAFETY: no pointer is involved.
            match check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) }.into()) {
                // The kernel has no more.
                Err(Errno::INVAL) => break,
                dropped => dropped?,
            }
        }
        rustix::thread::clear_ambient_capability_set()
    }

    fn drop_capabilities(&self) -> Result<(), Errno> {
        let none = CapabilitySet::empty();
        rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
    }

    fn gain_nothing(&self) -> Result<(), Errno> {
        rustix::thread::set_no_new_privs(true)
    }
}

fn restrict(folder: i32, path: &std::ffi::CStr, flags: i32, rights: Rights) -> Result<(), Errno> {
    let set = match rights {
        Rights::ReadOnly => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Rights::Plain => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Rights::Device => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
    };
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let size = size_of::<libc::mount_attr>();
    // SAFETY: path and attributes are valid for the call, which keeps neither; the size is the structure's.
    check(unsafe { libc::syscall(libc::SYS_mount_setattr, folder, path.as_ptr(), flags, &raw const attributes, size) })
}

fn check(returned: libc::c_long) -> Result<(), Errno> {
    if returned < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
