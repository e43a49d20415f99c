use std::collections::HashMap;

use super::*;

/// A system with these files, on this kernel.
struct Fake {
    files: HashMap<&'static str, &'static str>,
    kernel: &'static str,
}

impl Fake {
    fn new<const N: usize>(files: [(&'static str, &'static str); N]) -> Self {
        Fake { files: files.into(), kernel: "6.8.0-45-generic" }
    }
}

impl System for Fake {
    fn text(&self, path: &str) -> Option<String> {
        self.files.get(path).map(|text| (*text).to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn kernel(&self) -> String {
        self.kernel.to_owned()
    }
}

fn failed(step: &'static str, errno: Errno) -> StepFailure<'static> {
    StepFailure { step, errno: errno.raw_os_error(), detail: "", privileged: false }
}

const APPARMOR: (&str, &str) = ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
const CLONE: (&str, &str) = ("/proc/sys/kernel/unprivileged_userns_clone", "0");
const NONE: (&str, &str) = ("/proc/sys/user/max_user_namespaces", "0");
const DOCKER: (&str, &str) = ("/.dockerenv", "");
const MASKED: (&str, &str) =
    ("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n90 22 0:5 /null /proc/kcore rw - tmpfs tmpfs rw");
const UNMASKED: (&str, &str) = ("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw");

#[test]
fn each_reason_is_told_with_what_can_be_done() {
    let profile = ("/proc/self/attr/current", "unprivileged_userns (enforce)");
    let seccomp = ("/proc/self/status", "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1");
    let kubernetes = ("/proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice");
    for (failure, system, words) in [
        (
            failed("uid_map", Errno::PERM),
            Fake::new([APPARMOR, profile]),
            "AppArmor|unprivileged_userns (enforce)|restrict_unprivileged_userns=0|sudo|Docker",
        ),
        (failed("tmpfs", Errno::ACCESS), Fake::new([APPARMOR]), "AppArmor|`tmpfs` failed (Permission denied"),
        (failed("unshare", Errno::PERM), Fake::new([CLONE]), "unprivileged_userns_clone=1|sudo|Docker"),
        (failed("unshare", Errno::NOSPC), Fake::new([NONE]), "max_user_namespaces=10000|sudo|Docker"),
        (
            failed("unshare", Errno::NOSPC),
            Fake::new([("/proc/sys/user/max_net_namespaces", "0")]),
            "max_net_namespaces",
        ),
        (failed("unshare", Errno::NOSPC), Fake::new([]), "in use|parallel"),
        (failed("unshare", Errno::PERM), Fake::new([DOCKER]), "container (/.dockerenv)|socket|--privileged"),
        (failed("unshare", Errno::PERM), Fake::new([("/run/.containerenv", "")]), "container (/run/.containerenv)"),
        (
            failed("propagation", Errno::ACCESS),
            Fake::new([("/proc/self/attr/current", "/usr/bin/editor (enforce)")]),
            "AppArmor|`/usr/bin/editor`|mount,|Docker",
        ),
        (
            failed("propagation", Errno::ACCESS),
            Fake::new([("/proc/self/attr/current", "unconfined")]),
            "none of the known reasons",
        ),
        (failed("unshare", Errno::PERM), Fake::new([kubernetes]), "container (/proc/1/cgroup)"),
        (failed("unshare", Errno::PERM), Fake::new([seccomp]), "seccomp"),
        (failed("proc", Errno::PERM), Fake::new([DOCKER, MASKED]), "covered|systempaths=unconfined"),
        (failed("proc", Errno::PERM), Fake::new([DOCKER, UNMASKED]), "container"),
        (
            failed("mount_setattr /usr", Errno::NOSYS),
            Fake { kernel: "5.10.0-28-amd64", ..Fake::new([]) },
            "5.10.0-28-amd64 is too old|5.12|Docker",
        ),
        (failed("mount_setattr /usr", Errno::NOSYS), Fake::new([DOCKER]), "container"),
        (failed("fork", Errno::AGAIN), Fake::new([]), "parallel|ulimit"),
        (failed("tmpfs", Errno::NOSPC), Fake::new([]), "no more"),
        (failed("unshare", Errno::PERM), Fake::new([]), "none of the known reasons|Docker|sudo"),
    ] {
        let error = refused(failure, &system);
        assert_eq!(error.code(), "jail_unavailable");
        for word in words.split('|').chain([failure.step]) {
            assert!(error.detail().contains(word), "{word:?} is not in: {error}");
        }
    }
}

#[test]
fn the_most_telling_reason_comes_first() {
    let all = Fake::new([APPARMOR, CLONE, NONE, DOCKER]);
    let cause = |step, errno, system: &Fake| Cause::of(failed(step, errno), system);
    assert_eq!(cause("unshare", Errno::PERM, &all), Cause::AppArmor { profile: None });
    assert_eq!(cause("unshare", Errno::PERM, &Fake::new([CLONE, NONE, DOCKER])), Cause::UserNamespacesOff);
    let off = Fake::new([("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0"), DOCKER]);
    assert_eq!(cause("unshare", Errno::PERM, &off), Cause::Container { sign: "/.dockerenv" });
}

#[test]
fn with_privileges_user_namespaces_are_no_reason() {
    let failure = StepFailure { privileged: true, ..failed("unshare", Errno::PERM) };
    assert_eq!(Cause::of(failure, &Fake::new([APPARMOR, CLONE, NONE])), Cause::Unknown);
    let error = refused(failure, &Fake::new([APPARMOR]));
    assert!(!error.detail().contains("sudo"), "{error}");
    let none = StepFailure { privileged: true, ..failed("unshare", Errno::NOSPC) };
    assert_eq!(Cause::of(none, &Fake::new([NONE])), Cause::AllNamespacesUsed);
}

#[test]
fn what_the_step_said_itself_is_kept() {
    let failure = StepFailure { errno: 0, detail: "the helper ended with code 1", ..failed("probe", Errno::PERM) };
    let error = refused(failure, &Fake::new([DOCKER]));
    assert!(error.detail().contains("`probe` failed (the helper ended with code 1)"), "{error}");
    for errno in [-1, 0, 4096, i32::MAX, i32::MIN] {
        assert_eq!(Cause::of(StepFailure { errno, ..failure }, &Fake::new([DOCKER])), Cause::Unknown);
    }
    let both = StepFailure { detail: "at 127.0.0.1:443", ..failed("bind", Errno::ADDRINUSE) };
    assert!(refused(both, &Fake::new([])).detail().contains("; at 127.0.0.1:443)"));
}

#[test]
fn releases_are_compared_by_number() {
    for (release, old) in [
        ("5.11.22", true),
        ("5.4.0-190-generic", true),
        ("4.18.0-553.el8_10.x86_64", true),
        ("5.12.0", false),
        ("5.15.167.4-microsoft-standard-WSL2", false),
        ("6.1", false),
        ("10.0", false),
        ("", false),
        ("unknown", false),
    ] {
        assert_eq!(too_old(release), old, "{release}");
    }
}

#[test]
fn landlock_is_missed_with_a_way_to_get_it() {
    let inactive = Fake::new([("/sys/kernel/security/lsm", "capability,yama")]);
    assert!(without_landlock(&inactive).contains("lsm=landlock,capability,yama"));
    assert!(without_landlock(&Fake::new([])).contains("built without"));
}
