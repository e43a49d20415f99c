//! The processes of a suite's jails, seen from outside: they descend from the suite, and are known again when it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

/// A process; its number is used again, but not with the same start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    start: String,
}

impl Process {
    fn now(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let after_name: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // The dead are gone, whoever has not waited for them yet.
        (after_name.first()? != &"Z").then(|| Process { pid, start: after_name[19].to_owned() })
    }

    pub(crate) fn lives(&self) -> bool {
        Process::now(self.pid).as_ref() == Some(self)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    }

    pub(crate) fn kill(&self) {
        let pid = Pid::from_raw(self.pid.cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The living children of a process.
pub(crate) fn children(of: u32) -> Vec<Process> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>());
    pids.filter_map(Process::now).collect()
}

/// Everything that descends from a process.
pub(crate) fn descendants(of: u32) -> BTreeSet<Process> {
    let mut all = BTreeSet::new();
    let mut waiting = children(of);
    while let Some(process) = waiting.pop() {
        waiting.extend(children(process.pid));
        all.insert(process);
    }
    all
}

/// The control groups of a session, wherever they are.
pub(crate) fn groups(session: &str) -> Vec<PathBuf> {
    fn below(folder: PathBuf, depth: u32, session: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(session) {
                    found.push(entry.path());
                } else if depth > 0 {
                    below(entry.path(), depth - 1, session, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    below("/sys/fs/cgroup".into(), 6, session, &mut found);
    found
}
