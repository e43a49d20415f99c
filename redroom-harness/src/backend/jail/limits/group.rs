//! One control group: made, filled with limits, given processes, emptied and removed.
//!
//! Its name says whose it is (`redroom-SESSION-NAME`), so that a sweep finds what a killed session left behind.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use uuid::Uuid;

use super::OUR_PROCESSES;
use super::hierarchy::{Controller, Hierarchies, Place, Version};
use crate::backend::SandboxLimits;
use crate::backend::session::Life;

const PREFIX: &str = "redroom-";
/// How time on processors is shared out, in microseconds.
const PERIOD: u64 = 100_000;
/// How long the processes of a group may take to end when they have been killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a group of a session that is not known may be without a process: it may just be made.
const YOUTH: Duration = Duration::from_secs(60);

/// A control group of ours. It stays when this is dropped: see [`remove`](Self::remove).
#[derive(Debug)]
pub(super) struct Group {
    version: Version,
    folder: PathBuf,
    /// Its processes are ours alone, and none can be added to it while it dies.
    pids: bool,
}

/// The name of a group; `None` if it would not be read again, or lead elsewhere.
pub(super) fn name(session: &str, name: &str) -> Option<String> {
    let session = Uuid::try_parse(session).ok()?;
    let plain = |name: &str| {
        !name.is_empty() && name.len() <= 100 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    plain(name).then(|| format!("{PREFIX}{}-{name}", session.hyphenated()))
}

/// The session that a group's name names.
fn session(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let (session, name) = (rest.get(..36)?, rest.get(36..)?);
    (Uuid::try_parse(session).is_ok() && name.starts_with('-')).then_some(session)
}

/// Removes the groups of dead sessions, with what is still in them. Of sessions that are not known, whose locks may lie in a folder
/// of somebody else, only what has been empty for a while: of a jail, no process outlives the one that made it. Gives their names.
pub(crate) fn sweep(hierarchies: &Hierarchies, life: impl Fn(&str) -> Life) -> Vec<String> {
    sweep_after(YOUTH, hierarchies, life)
}

pub(super) fn sweep_after(youth: Duration, hierarchies: &Hierarchies, life: impl Fn(&str) -> Life) -> Vec<String> {
    let mut swept = Vec::new();
    let mut lives: HashMap<String, Life> = HashMap::new();
    for place in hierarchies.places() {
        let names = fs::read_dir(&place.folder).into_iter().flatten().flatten();
        for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
            let Some(session) = session(&name) else { continue };
            let folder = place.folder.join(&name);
            let life = *lives.entry(session.to_owned()).or_insert_with(|| life(session));
            let removed = match life {
                Life::Lives => continue,
                Life::Unknown if is_young(&folder, youth) => continue,
                // The kernel keeps what has a process in it.
                Life::Unknown if fs::remove_dir(&folder).is_err() => continue,
                Life::Unknown => {
                    let _ = fs::remove_dir(&place.folder);
                    Ok(())
                }
                Life::Dead | Life::Hangs => Group { version: place.version, folder, pids: false }.remove(),
            };
            match removed {
                Ok(()) if swept.contains(&name) => {}
                Ok(()) => swept.push(name),
                Err(why) => tracing::warn!(%why, "a control group of a dead session stays"),
            }
        }
    }
    swept
}

fn is_young(folder: &Path, youth: Duration) -> bool {
    let age = fs::metadata(folder).and_then(|facts| facts.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < youth)
}

impl Group {
    pub(super) fn create(place: &Place, name: &str) -> Result<Self, String> {
        let folder = place.folder.join(name);
        let cannot = |folder: &Path, error: io::Error| format!("{} cannot be made: {error}", folder.display());
        loop {
            match fs::create_dir(&place.folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(&place.folder, error)),
                _ => {}
            }
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Group { version: place.version, folder, pids: false }),
                // Somebody removed the last group of the node, and it, in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot(&folder, error)),
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets a controller's limit. Gives why it does not hold in full.
    pub(super) fn hold(&mut self, controller: Controller, limits: &SandboxLimits) -> Result<Option<String>, String> {
        if self.version == Version::Two {
            // From the top: the place hands it to our node, the node to its groups.
            let above: Vec<&Path> = self.folder.ancestors().skip(1).take(2).collect();
            for group in above.into_iter().rev() {
                put(&group.join("cgroup.subtree_control"), &format!("+{}", controller.word()))?;
            }
        }
        match (controller, self.version) {
            (Controller::Memory, Version::Two) => {
                self.set("memory.max", limits.memory)?;
                Ok(self.optional("memory.swap.max", 0))
            }
            (Controller::Memory, Version::One) => {
                self.set("memory.limit_in_bytes", limits.memory)?;
                Ok(self.optional("memory.memsw.limit_in_bytes", limits.memory))
            }
            (Controller::Pids, _) => {
                self.set("pids.max", limits.pids.saturating_add(OUR_PROCESSES))?;
                self.pids = true;
                Ok(None)
            }
            (Controller::Cpu, Version::Two) => {
                self.set("cpu.max", format!("{} {PERIOD}", quota(limits.cpus)))?;
                Ok(None)
            }
            (Controller::Cpu, Version::One) => {
                self.set("cpu.cfs_period_us", PERIOD)?;
                self.set("cpu.cfs_quota_us", quota(limits.cpus))?;
                Ok(None)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_version_one(&self) -> bool {
        self.version == Version::One
    }

    /// What a process with one thread enters by, writing a zero. Whoever is moved by another has the kernel wait until every processor
    /// has come by. Version 2 has no such door.
    pub(super) fn door(&self) -> Result<Option<File>, String> {
        match self.version {
            Version::One => open_existing(&self.folder.join("tasks")).map(Some),
            Version::Two => Ok(None),
        }
    }

    /// Moves a process in; what it starts from now on is in, too.
    pub(super) fn admit(&self, pid: Pid) -> Result<(), String> {
        self.set("cgroup.procs", pid.as_raw_pid())
    }

    /// How many processes were killed for memory.
    pub(super) fn killed_for_memory(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        counter(&text, "oom_kill").unwrap_or(0)
    }

    /// Kills every process in it, those that are being started too. Whether it could.
    pub(super) fn kill(&self) -> bool {
        if self.version == Version::Two && self.set("cgroup.kill", 1).is_ok() {
            return true;
        }
        if !self.pids {
            return false;
        }
        // Nothing new can start, so one round is all of them.
        if self.set("pids.max", 0).is_err() {
            return false;
        }
        self.kill_each();
        true
    }

    fn kill_each(&self) {
        for pid in self.processes() {
            // Once it is pinned, its number can pass to nobody else; if it is still in the group then, it is the one.
            if let Ok(pinned) = pidfd_open(pid, PidfdFlags::empty())
                && self.processes().contains(&pid)
            {
                // It may have ended by itself.
                let _ = pidfd_send_signal(&pinned, Signal::KILL);
            }
        }
    }

    fn processes(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
    }

    /// Removes it; what is still in it is killed. Blocks for as long as that takes, at most five seconds.
    pub(super) fn remove(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::remove_dir(&self.folder) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) && Instant::now() < deadline => {
                    if !self.kill() {
                        self.kill_each();
                    }
                    // The kernel tells nobody when the last process has left.
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(format!("{} cannot be removed: {error}", self.folder.display())),
            }
        }
        // The kernel keeps a node that has groups in it.
        let _ = self.folder.parent().map(fs::remove_dir);
        Ok(())
    }

    fn set(&self, file: &str, value: impl ToString) -> Result<(), String> {
        put(&self.folder.join(file), &value.to_string())
    }

    /// Swap, which a kernel may not count.
    fn optional(&self, file: &str, value: u64) -> Option<String> {
        self.set(file, value).err()
    }
}

/// Microseconds of each period; the kernel takes no less than a thousand.
fn quota(cpus: f64) -> u64 {
    ((cpus * PERIOD as f64) as u64).max(1000)
}

/// Writes to a file that is there; control groups have nothing to create.
fn put(path: &Path, value: &str) -> Result<(), String> {
    let written = open_existing(path)?.write_all(value.as_bytes());
    written.map_err(|error| format!("{} cannot be set to {value:?}: {error}", path.display()))
}

fn open_existing(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().write(true).open(path);
    file.map_err(|error| format!("{} cannot be written to: {error}", path.display()))
}

/// The number after a word at the start of a line.
fn counter(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    const SESSION: &str = "6f1c2f0e-5b0f-4c6e-9a51-0d9a3f1f7c11";

    #[test]
    fn a_name_says_whose_group_it_is() {
        let own = name(SESSION, "slot-3").unwrap();
        assert_eq!(own, format!("redroom-{SESSION}-slot-3"));
        assert_eq!(session(&own), Some(SESSION));
        let (long, bare) = (format!("redroom-{}-x", "x".repeat(36)), format!("redroom-{SESSION}"));
        let cut = "redroom-6f1c2f0e-5b0f-4c6e-9a51-0d9a3f1f7c1é-x";
        for foreign in ["docker", "redroom-", "redroom-x", "user.slice", cut, &long, &bare, &format!("{bare}x")] {
            assert_eq!(session(foreign), None, "{foreign}");
        }
        for (session, part) in
            [("x", "a"), (SESSION, ""), (SESSION, "../a"), (SESSION, "a/b"), (SESSION, &"a".repeat(101))]
        {
            assert_eq!(name(session, part), None, "{session} {part}");
        }
    }

    #[test]
    fn counters_are_read_by_their_whole_word() {
        let events = "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(counter(events, "oom_kill"), Some(1));
        assert_eq!(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill"), Some(7));
        assert_eq!(counter("", "oom_kill"), None);
    }

    #[test]
    fn a_fraction_of_a_processor_is_a_part_of_each_period() {
        for (cpus, expected) in [(2.0, 200_000), (0.5, 50_000), (0.01, 1000), (0.001, 1000)] {
            assert_eq!(quota(cpus), expected, "{cpus}");
        }
    }

    /// Without controllers, which a hierarchy of version 2 need not have: what groups do is there all the same.
    #[test]
    fn a_group_of_version_two_is_killed_at_once() {
        let Some(folder) = Hierarchies::of_this_process().top_of_version_two() else {
            eprintln!("skipped: no control group of version 2 may be written to");
            return;
        };
        let place = Place::under(Version::Two, &folder);
        let group = Group::create(&place, &name(&Uuid::new_v4().to_string(), "test").unwrap()).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line; sleep 1000 & echo there; wait"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        group.admit(Pid::from_child(&child)).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        assert_eq!(group.processes().len(), 2);
        assert!(group.kill());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        group.remove().unwrap();
        assert!(!group.folder().exists());
        group.remove().unwrap();
    }
}
