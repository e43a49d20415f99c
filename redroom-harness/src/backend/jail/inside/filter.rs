//! Which system calls an agent may make: two filters, for the kernel takes the stricter word of both.
//!
//! The first is a list of what is allowed, in the spirit of Docker's default profile. What is on no list is `ENOSYS`, as on an
//! older kernel, so that programs fall back: `clone3` above all, whose flags a filter cannot see. The second refuses by name, or by
//! argument, what no agent needs and the kernel has been broken with: `EPERM`. System calls of another machine kind end the caller.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use libc::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use self::calls::{ALLOWED, ALLOWED_HERE, REFUSED};

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
