use std::collections::BTreeSet;

use super::*;

/// What a filter makes of a call: a small reading of the machine that the kernel has for it.
fn judge(program: &BpfProgram, call: i64, arguments: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(u32::try_from(call).unwrap().to_le_bytes());
    data.extend(AUDIT_ARCH.to_le_bytes());
    data.extend(0_u64.to_le_bytes());
    arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let step = &program[at];
        at += 1;
        let branch = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
        match step.code {
            // Load a word.
            0x20 => {
                let from = step.k as usize;
                accumulator = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
            }
            0x54 => accumulator &= step.k,
            0x05 => at += step.k as usize,
            0x15 => at += branch(accumulator == step.k),
            0x25 => at += branch(accumulator > step.k),
            0x35 => at += branch(accumulator >= step.k),
            0x06 => return step.k,
            other => panic!("an unknown step {other:#x}"),
        }
    }
}

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;
const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;

/// What the kernel makes of both filters: the stricter word, and of two errors the younger filter's.
fn verdict(call: i64, arguments: [u64; 6]) -> Option<i32> {
    let [first, second] = [allowed(), refused()].map(|program| judge(&program.unwrap(), call, arguments));
    let strictest = if second == ALLOW { first } else { second };
    match strictest {
        ALLOW => None,
        error if error & 0xffff_0000 == FAIL => Some((error & 0xffff).cast_signed()),
        other => panic!("an unknown verdict {other:#x}"),
    }
}

fn with(argument: usize, value: u64) -> [u64; 6] {
    let mut arguments = [0; 6];
    arguments[argument] = value;
    arguments
}

#[test]
fn every_named_call_is_refused() {
    for call in REFUSED {
        assert_eq!(verdict(*call, [0; 6]), Some(EPERM), "{call}");
    }
}

#[test]
fn what_programs_need_is_allowed() {
    for call in ALLOWED.iter().chain(ALLOWED_HERE).filter(|call| ![SYS_socket, SYS_socketpair].contains(call)) {
        assert_eq!(verdict(*call, [0; 6]), None, "{call}");
    }
}

#[test]
fn no_call_is_on_both_lists() {
    let refused: BTreeSet<&i64> = REFUSED.iter().collect();
    assert_eq!(refused.len(), REFUSED.len());
    assert!(ALLOWED.iter().chain(ALLOWED_HERE).all(|call| !refused.contains(call)));
}

#[test]
fn what_nobody_has_heard_of_does_not_exist() {
    for call in [SYS_clone3, 470, 600, 0x4000_0000 + SYS_read] {
        assert_eq!(verdict(call, [0; 6]), Some(ENOSYS), "{call}");
    }
}

#[test]
fn no_namespace_can_be_made_however_it_is_asked_for() {
    let each = [CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP];
    for flag in each.map(i32::cast_unsigned) {
        for call in [SYS_clone, SYS_unshare] {
            assert_eq!(verdict(call, with(0, flag.into())), Some(EPERM), "{call} {flag:#x}");
            assert_eq!(verdict(call, with(0, u64::from(flag) | 0x11)), Some(EPERM));
            // The upper half of the register is not looked at by the kernel, nor may it fool the filter.
            assert_eq!(verdict(call, with(0, u64::from(flag) | 1 << 40)), Some(EPERM));
        }
    }
    assert_eq!(verdict(SYS_unshare, with(0, NEW_TIME.cast_unsigned().into())), Some(EPERM));
    let thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SETTLS;
    assert_eq!(verdict(SYS_clone, with(0, thread.cast_unsigned().into())), None);
    assert_eq!(verdict(SYS_clone, with(0, SIGCHLD.cast_unsigned().into())), None);
}

#[test]
fn only_the_slots_families_of_sockets_are_there() {
    for call in [SYS_socket, SYS_socketpair] {
        for family in 0..64_i32 {
            let expected = if FAMILIES.contains(&family) { None } else { Some(EPERM) };
            assert_eq!(verdict(call, with(0, family.cast_unsigned().into())), expected, "{family}");
        }
    }
    for family in [AF_VSOCK, AF_PACKET, AF_ALG] {
        assert_eq!(verdict(SYS_socket, with(0, u64::from(family.cast_unsigned()) | 1 << 32)), Some(EPERM));
    }
}

#[test]
fn nothing_is_typed_into_a_terminal_and_no_other_process_is_limited() {
    assert_eq!(verdict(SYS_ioctl, with(1, TIOCSTI)), Some(EPERM));
    assert_eq!(verdict(SYS_ioctl, with(1, TIOCLINUX)), Some(EPERM));
    assert_eq!(verdict(SYS_ioctl, with(1, TIOCSTI | 1 << 32)), Some(EPERM));
    assert_eq!(verdict(SYS_ioctl, with(1, TIOCGWINSZ)), None);
    assert_eq!(verdict(SYS_prlimit64, with(0, 1)), Some(EPERM));
    assert_eq!(verdict(SYS_prlimit64, with(0, 0)), None);
    assert_eq!(verdict(SYS_personality, with(0, 0x0004_0000)), Some(EPERM));
    assert_eq!(verdict(SYS_personality, with(0, 0xffff_ffff)), None);
}
