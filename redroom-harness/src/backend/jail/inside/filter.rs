//! Which system calls an agent may make: two filters, for the kernel takes the stricter word of both.
//!
//! The first is a list of what is allowed, in the spirit of Docker's default profile. What is on no list is `ENOSYS`, as on an
//! older kernel, so that programs fall back: `clone3` above all, whose flags a filter cannot see. The second refuses by name, or by
//! argument, what no agent needs and the kernel has been broken with: `EPERM`. System calls of another machine kind end the caller.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use libc::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Both filters, ready to be installed: a slot's sandboxes all have the same.
pub(super) struct Filters([BpfProgram; 2]);

impl Filters {
    pub(super) fn new() -> seccompiler::Result<Self> {
        // The refusals last: of two errors the kernel takes the younger filter's.
        Ok(Filters([allowed()?, refused()?]))
    }

    /// Installs them, for this process and all that it starts. Needs `no_new_privs`.
    pub(super) fn apply(&self) -> seccompiler::Result<()> {
        self.0.iter().try_for_each(|program| seccompiler::apply_filter(program))
    }
}

fn allowed() -> seccompiler::Result<BpfProgram> {
    let rules = ALLOWED.iter().chain(ALLOWED_HERE).chain(REFUSED).map(|call| (*call, Vec::new()));
    compile(rules.collect(), ENOSYS, SeccompAction::Allow, true)
}

fn refused() -> seccompiler::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, alternatives) in refused_by_argument() {
        let alternatives: Result<_, _> = alternatives.into_iter().map(SeccompRule::new).collect();
        rules.insert(call, alternatives.map_err(seccompiler::Error::from)?);
    }
    compile(rules, EPERM, SeccompAction::Allow, false)
}

/// A filter with these rules: what they name is allowed, or refused.
fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
    allow: SeccompAction,
    named_is_allowed: bool,
) -> seccompiler::Result<BpfProgram> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let (unnamed, named) = if named_is_allowed { (refuse, allow) } else { (allow, refuse) };
    Ok(SeccompFilter::new(rules, unnamed, named, MACHINE)?.try_into()?)
}

#[cfg(target_arch = "x86_64")]
const MACHINE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: TargetArch = TargetArch::aarch64;

/// Namespaces, whatever a call can make of them.
const NAMESPACES: i32 =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
/// `CLONE_NEWTIME`, which `clone` takes for a part of a signal's number.
const NEW_TIME: i32 = 0x80;
/// The families of sockets that there are in a slot. Others reach past its network (vsock), or into the kernel.
const FAMILIES: [i32; 4] = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
/// Personalities that change nothing about protection: Linux, 32-bit `uname`, asking.
const PERSONALITIES: [u32; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// Puts a character into the input of somebody's terminal.
const INPUT_OF_TERMINALS: [u64; 2] = [TIOCSTI, TIOCLINUX];

/// Calls that depend on what they ask for: each alternative is a list of conditions that all have to hold.
fn refused_by_argument() -> Vec<(i64, Vec<Vec<SeccompCondition>>)> {
    let each_bit = |argument: u8, flags: i32| {
        let bits = (0..32).map(|bit| 1_u32 << bit).filter(move |bit| flags.cast_unsigned() & bit != 0);
        bits.map(|bit| vec![when(argument, SeccompCmpOp::MaskedEq(bit.into()), bit.into())]).collect::<Vec<_>>()
    };
    let none_of = |argument: u8, values: &[u32]| {
        vec![values.iter().map(|value| when(argument, SeccompCmpOp::Ne, (*value).into())).collect::<Vec<_>>()]
    };
    let families = FAMILIES.map(i32::cast_unsigned);
    vec![
        (SYS_clone, each_bit(0, NAMESPACES)),
        (SYS_unshare, each_bit(0, NAMESPACES | NEW_TIME)),
        (SYS_socket, none_of(0, &families)),
        (SYS_socketpair, none_of(0, &families)),
        (SYS_personality, none_of(0, &PERSONALITIES)),
        (SYS_ioctl, INPUT_OF_TERMINALS.map(|request| vec![when(1, SeccompCmpOp::Eq, request)]).into()),
        // The first process is the same user's, and its limits are everybody's.
        (SYS_prlimit64, none_of(0, &[0])),
    ]
}

fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).expect("there are six arguments")
}

/// Refused, whatever they ask for.
const REFUSED: &[i64] = &[
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_move_pages,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_userfaultfd,
    SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    SYS_sysfs,
];

/// Allowed on every kind of machine.
const ALLOWED: &[i64] = &[
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_brk,
    SYS_capget,
    SYS_capset,
    SYS_chdir,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_clone,
    SYS_close,
    SYS_close_range,
    SYS_connect,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fanotify_mark,
    SYS_fchdir,
    SYS_fchmod,
    SYS_fchmodat,
    FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_fcntl,
    SYS_fdatasync,
    SYS_fgetxattr,
    SYS_flistxattr,
    SYS_flock,
    SYS_fremovexattr,
    SYS_fsetxattr,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_futex,
    SYS_futex_waitv,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_getcwd,
    SYS_getdents64,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getitimer,
    SYS_getpeername,
    SYS_getpgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_getsid,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_getuid,
    SYS_getxattr,
    SYS_inotify_add_watch,
    SYS_inotify_init1,
    SYS_inotify_rm_watch,
    SYS_io_cancel,
    SYS_io_destroy,
    SYS_io_getevents,
    SYS_io_setup,
    SYS_io_submit,
    SYS_ioctl,
    SYS_ioprio_get,
    SYS_ioprio_set,
    SYS_kill,
    SYS_landlock_add_rule,
    SYS_landlock_create_ruleset,
    SYS_landlock_restrict_self,
    SYS_lgetxattr,
    SYS_linkat,
    SYS_listen,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_lremovexattr,
    SYS_lseek,
    SYS_lsetxattr,
    SYS_madvise,
    SYS_membarrier,
    SYS_memfd_create,
    SYS_mincore,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_mmap,
    SYS_mprotect,
    SYS_mq_getsetattr,
    SYS_mq_notify,
    SYS_mq_open,
    SYS_mq_timedreceive,
    SYS_mq_timedsend,
    SYS_mq_unlink,
    SYS_mremap,
    SYS_msgctl,
    SYS_msgget,
    SYS_msgrcv,
    SYS_msgsnd,
    SYS_msync,
    SYS_munlock,
    SYS_munlockall,
    SYS_munmap,
    SYS_name_to_handle_at,
    SYS_nanosleep,
    SYS_newfstatat,
    SYS_openat,
    SYS_openat2,
    SYS_personality,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_pipe2,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_ppoll,
    SYS_prctl,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_prlimit64,
    SYS_process_mrelease,
    SYS_pselect6,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlinkat,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_remap_file_pages,
    SYS_removexattr,
    SYS_renameat2,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_rr_get_interval,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_sched_yield,
    SYS_seccomp,
    SYS_semctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_sendfile,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_setfsgid,
    SYS_setfsuid,
    SYS_setgid,
    SYS_setgroups,
    SYS_setitimer,
    SYS_setpgid,
    SYS_setpriority,
    SYS_setregid,
    SYS_setresgid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_setrlimit,
    SYS_setsid,
    SYS_setsockopt,
    SYS_setuid,
    SYS_setxattr,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_shmget,
    SYS_shutdown,
    SYS_sigaltstack,
    SYS_signalfd4,
    SYS_socket,
    SYS_socketpair,
    SYS_splice,
    SYS_statfs,
    SYS_statx,
    SYS_symlinkat,
    SYS_sync,
    SYS_sync_file_range,
    SYS_syncfs,
    SYS_sysinfo,
    SYS_tee,
    SYS_tgkill,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    SYS_timer_gettime,
    SYS_timer_settime,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    SYS_times,
    SYS_tkill,
    SYS_truncate,
    SYS_umask,
    SYS_uname,
    SYS_unlinkat,
    SYS_unshare,
    SYS_utimensat,
    SYS_vmsplice,
    SYS_wait4,
    SYS_waitid,
    SYS_write,
    SYS_writev,
];

/// `fchmodat2` has the same number everywhere; the library does not name it on every machine.
const FCHMODAT2: i64 = 452;

/// Allowed on this kind of machine, which has older forms of many calls.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[
    SYS_access,
    SYS_alarm,
    SYS_arch_prctl,
    SYS_chmod,
    SYS_chown,
    SYS_creat,
    SYS_dup2,
    SYS_epoll_create,
    SYS_epoll_ctl_old,
    SYS_epoll_wait,
    SYS_epoll_wait_old,
    SYS_eventfd,
    SYS_fork,
    SYS_futimesat,
    SYS_getdents,
    SYS_getpgrp,
    SYS_inotify_init,
    SYS_lchown,
    SYS_link,
    SYS_lstat,
    SYS_mkdir,
    SYS_mknod,
    SYS_open,
    SYS_pause,
    SYS_pipe,
    SYS_poll,
    SYS_readlink,
    SYS_rename,
    SYS_renameat,
    SYS_rmdir,
    SYS_select,
    SYS_signalfd,
    SYS_stat,
    SYS_symlink,
    SYS_time,
    SYS_unlink,
    SYS_utime,
    SYS_utimes,
    SYS_vfork,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[i64] = &[SYS_renameat];
