//! Why no jail can be made here, and what the user can do.
//!
//! The kernel says no more than "not permitted". So the step that was refused is named, and the system is asked for the known
//! reasons, the most telling first. Knows texts of `/proc` and `/sys`; makes nothing, tries nothing.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::error::Error;

/// `mount_setattr`, which makes a mount read-only with all below it, came with this one.
const LEAST_KERNEL: (u32, u32) = (5, 12);

/// A step in the making of a jail that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepFailure<'a> {
    /// Its name, such as `unshare`, `uid_map`, `proc`, `mount_setattr /usr`.
    pub(crate) step: &'a str,
    /// The number of the error that the system gave; 0 where it gave none.
    pub(crate) errno: i32,
    /// More to say, or nothing.
    pub(crate) detail: &'a str,
    /// Whether it was tried with privileges, without a user namespace.
    pub(crate) privileged: bool,
}

/// What is known of the system that refused.
pub(crate) trait System {
    /// A small file's text, trimmed; `None` where it cannot be read.
    fn text(&self, path: &str) -> Option<String>;
    /// Whether there is such a file.
    fn exists(&self, path: &str) -> bool;
    /// The kernel's release: `6.8.0-45-generic`.
    fn kernel(&self) -> String;
}

/// The system that this process runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisSystem;

impl System for ThisSystem {
    fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn kernel(&self) -> String {
        rustix::system::uname().release().to_string_lossy().into_owned()
    }
}

/// The error for a step that failed, with its reason and what the user can do: `jail_unavailable`, by the backend.
pub(crate) fn refused(failure: StepFailure<'_>, system: &dyn System) -> Error {
    let Advice { why, choices } = advice(&Cause::of(failure, system), failure);
    let mut said = match failure.errno {
        0 => String::new(),
        errno => io::Error::from_raw_os_error(errno).to_string(),
    };
    if !failure.detail.is_empty() && !said.contains(failure.detail) {
        said = if said.is_empty() { failure.detail.to_owned() } else { format!("{said}; {}", failure.detail) };
    }
    let step = failure.step;
    unavailable(format!(
        "no jail can be made here: `{step}` failed ({said}). {why}. What you can do: {}",
        choices.join("; or ")
    ))
}

/// What to tell the user where the kernel has no Landlock. No refusal: it is the second layer under mounts, namespaces and a
/// filter of system calls that hold without it.
pub(crate) fn without_landlock(system: &dyn System) -> String {
    let why = match system.text("/sys/kernel/security/lsm") {
        Some(active) => format!(
            "it is not among the active security modules ({active}); an administrator can add it with `lsm=landlock,{active}` on the kernel's command line"
        ),
        None => "this kernel was built without it, or does not say".to_owned(),
    };
    format!("the jail lacks Landlock, its second layer against writing outside of its own files: {why}")
}

fn unavailable(detail: String) -> Error {
    Error::backend("jail_unavailable", detail)
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// Ubuntu's restriction, and the profile that this process runs under.
    AppArmor {
        profile: Option<String>,
    },
    /// The switch of Debian's and of hardened kernels.
    UserNamespacesOff,
    /// A kind of namespace of which there may be none at all.
    NoNamespaces {
        sysctl: String,
    },
    /// As many namespaces as there may be are in use.
    AllNamespacesUsed,
    /// Parts of this process's own `/proc` are covered: the kernel lets nobody uncover them by mounting another.
    CoveredProc,
    /// A container's filter.
    Container {
        sign: &'static str,
    },
    /// A profile of AppArmor's that is not the system's for everybody.
    Profile {
        name: String,
    },
    /// A filter of system calls, not known whose.
    Filtered,
    /// A kernel that is too old.
    OldKernel {
        release: String,
    },
    /// Too many processes, open files or too little memory.
    Exhausted,
    Unknown,
}

impl Cause {
    fn of(failure: StepFailure<'_>, system: &dyn System) -> Self {
        // Another number is no error of a kernel's, and cannot be made into one.
        if !(1..4096).contains(&failure.errno) {
            return Cause::Unknown;
        }
        match Errno::from_raw_os_error(failure.errno) {
            Errno::NOSYS => Self::missing(system),
            Errno::NOSPC | Errno::USERS => Self::no_more(failure, system),
            Errno::PERM | Errno::ACCESS => Self::forbidden(failure, system),
            Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Cause::Exhausted,
            _ if too_old(&system.kernel()) => Cause::OldKernel { release: system.kernel() },
            _ => Cause::Unknown,
        }
    }

    /// The kernel does not know the call, or a filter says so.
    fn missing(system: &dyn System) -> Self {
        let release = system.kernel();
        if too_old(&release) { Cause::OldKernel { release } } else { Self::confined(system).unwrap_or(Cause::Unknown) }
    }

    fn no_more(failure: StepFailure<'_>, system: &dyn System) -> Self {
        if !failure.step.starts_with("unshare") {
            return Cause::Exhausted;
        }
        let kinds = ["user", "net", "mnt", "pid", "ipc", "uts", "cgroup"].into_iter();
        kinds
            .filter(|kind| !failure.privileged || *kind != "user")
            .map(|kind| format!("user.max_{kind}_namespaces"))
            .find(|sysctl| system.text(&path(sysctl)).as_deref() == Some("0"))
            .map_or(Cause::AllNamespacesUsed, |sysctl| Cause::NoNamespaces { sysctl })
    }

    fn forbidden(failure: StepFailure<'_>, system: &dyn System) -> Self {
        let set = |sysctl: &str, value: &str| system.text(&path(sysctl)).as_deref() == Some(value);
        // With privileges no user namespace is made, so none of this applies.
        if !failure.privileged {
            if set("kernel.apparmor_restrict_unprivileged_userns", "1") {
                let profile = system.text("/proc/self/attr/current").filter(|profile| !profile.is_empty());
                return Cause::AppArmor { profile };
            }
            if set("kernel.unprivileged_userns_clone", "0") {
                return Cause::UserNamespacesOff;
            }
            if set("user.max_user_namespaces", "0") {
                return Cause::NoNamespaces { sysctl: "user.max_user_namespaces".to_owned() };
            }
        }
        if failure.step == "proc" && proc_is_covered(system) {
            return Cause::CoveredProc;
        }
        Self::confined(system).unwrap_or(Cause::Unknown)
    }

    /// Whatever already confines this process.
    fn confined(system: &dyn System) -> Option<Self> {
        let files = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        if let Some(sign) = files.into_iter().find(|sign| system.exists(sign)) {
            return Some(Cause::Container { sign });
        }
        let groups = system.text("/proc/1/cgroup").unwrap_or_default();
        if ["docker", "kubepods", "libpod", "containerd", "/lxc"].iter().any(|word| groups.contains(word)) {
            return Some(Cause::Container { sign: "/proc/1/cgroup" });
        }
        let profile = system.text("/proc/self/attr/current");
        if let Some(name) = profile.as_deref().and_then(|profile| profile.strip_suffix(" (enforce)")) {
            return Some(Cause::Profile { name: name.to_owned() });
        }
        let status = system.text("/proc/self/status").unwrap_or_default();
        let filtered = status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
        filtered.then_some(Cause::Filtered)
    }
}

/// Whether something is mounted over a part of `/proc`.
fn proc_is_covered(system: &dyn System) -> bool {
    let mounts = system.text("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|at| at.starts_with("/proc/"))
}

/// A release that cannot be read is not held against the kernel.
fn too_old(release: &str) -> bool {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map_while(|part| part.parse().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) < LEAST_KERNEL)
}

fn path(sysctl: &str) -> String {
    format!("/proc/sys/{}", sysctl.replace('.', "/"))
}

struct Advice {
    why: String,
    choices: Vec<String>,
}

fn advice(cause: &Cause, failure: StepFailure<'_>) -> Advice {
    let docker = || "start Docker".to_owned();
    let root = || "run as root, as most CI jobs can with `sudo`".to_owned();
    let sysctl = |setting: &str| format!("let an administrator run `sysctl -w {setting}`");
    let unprivileged = |setting: &str| vec![docker(), root(), sysctl(setting)];
    match cause {
        Cause::AppArmor { profile } => {
            let under = profile.as_ref().map(|profile| format!("; this process runs under the profile `{profile}`"));
            Advice {
                why: format!(
                    "Ubuntu's AppArmor keeps plain users from using user namespaces (`kernel.apparmor_restrict_unprivileged_userns` is 1){}",
                    under.unwrap_or_default()
                ),
                choices: vec![
                    docker(),
                    root(),
                    sysctl("kernel.apparmor_restrict_unprivileged_userns=0"),
                    "let an administrator add a profile with `userns,` for the test programs (`…/target/*/deps/*`)".to_owned(),
                ],
            }
        }
        Cause::UserNamespacesOff => Advice {
            why: "this kernel keeps plain users from making user namespaces (`kernel.unprivileged_userns_clone` is 0)".to_owned(),
            choices: unprivileged("kernel.unprivileged_userns_clone=1"),
        },
        Cause::NoNamespaces { sysctl: name } => {
            let mut choices = vec![docker(), sysctl(&format!("{name}=10000"))];
            if name == "user.max_user_namespaces" {
                choices.insert(1, root());
            }
            Advice { why: format!("this system allows no such namespace at all (`{name}` is 0)"), choices }
        }
        Cause::AllNamespacesUsed => Advice {
            why: "as many namespaces are in use as this system allows (`user.max_*_namespaces`), or they are nested too deep".to_owned(),
            choices: vec![
                "end programs that make many sandboxes".to_owned(),
                "run fewer attacks at once (`parallel`)".to_owned(),
                docker(),
            ],
        },
        Cause::CoveredProc => Advice {
            why: "parts of `/proc` are covered here, as in a container, and the kernel allows no fresh one beside it".to_owned(),
            choices: vec![
                "give the container `--security-opt systempaths=unconfined`, or `--privileged`".to_owned(),
                "mount the engine's socket into it and use Docker".to_owned(),
                "run outside of the container".to_owned(),
            ],
        },
        Cause::Container { sign } => Advice {
            why: format!("this is a container ({sign}), and its engine lets nothing in it make namespaces or mounts"),
            choices: vec![
                "mount the engine's socket into it and use Docker".to_owned(),
                "give it `--privileged`, if you trust what runs in it".to_owned(),
                "run outside of the container".to_owned(),
            ],
        },
        Cause::Profile { name } => Advice {
            why: format!("AppArmor confines this process by the profile `{name}`"),
            choices: vec![
                "run outside of it".to_owned(),
                "let an administrator allow in it what the jail needs, as `userns,`, `mount,` and `pivot_root,`".to_owned(),
                docker(),
            ],
        },
        Cause::Filtered => Advice {
            why: "a filter of system calls (seccomp) holds this process, that of a container, a service or another sandbox".to_owned(),
            choices: vec!["run outside of it".to_owned(), docker()],
        },
        Cause::OldKernel { release } => Advice {
            why: format!("kernel {release} is too old: the jail needs {}.{}", LEAST_KERNEL.0, LEAST_KERNEL.1),
            choices: vec![docker(), "use a newer kernel".to_owned()],
        },
        Cause::Exhausted => Advice {
            why: "this system, or a limit of this user's, has no more processes, open files or memory to give".to_owned(),
            choices: vec![
                "run fewer attacks at once (`parallel`)".to_owned(),
                "raise `ulimit -u` and `ulimit -n`".to_owned(),
                docker(),
            ],
        },
        Cause::Unknown => {
            let root = (!failure.privileged).then(root);
            Advice {
                why: "none of the known reasons is to be seen on this system".to_owned(),
                choices: [docker()].into_iter().chain(root).collect(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
