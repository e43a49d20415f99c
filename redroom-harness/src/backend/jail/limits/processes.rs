//! The processes below one process, and how much memory they use, as the host's `/proc` tells it.
//!
//! Processes come and go while they are looked at. A number that passed to somebody else is noticed by its parent, who is not
//! one of ours, and by the time it was started at.

use std::collections::HashMap;
use std::fs;

/// The most processes that are looked at in one go.
const MOST: usize = 100_000;

/// What a system says of its processes.
pub(super) trait Table {
    /// `None` if there is no such process.
    fn process(&self, pid: i32) -> Option<Process>;
    /// `None` where the system keeps no such lists.
    fn children(&self, pid: i32) -> Option<Vec<i32>>;
    /// Every process, where there are no lists of children.
    fn all(&self) -> Vec<i32>;
    /// Its own and shared memory and its swap, in bytes, but for pages of files. What processes share is counted for each.
    fn resident(&self, pid: i32) -> u64;
    /// The same with what is shared counted in part only; costs more to know. `None` if it may not be known.
    fn proportional(&self, pid: i32) -> Option<u64>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) parent: i32,
    pub(super) threads: u32,
    /// In ticks since the system was started.
    pub(super) started: u64,
}

/// A process and all below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    members: HashMap<i32, Process>,
    pub(super) threads: u32,
}

impl Family {
    /// The family of `root`; `None` if that one has ended, and another has its number. Does not look further when it has found more
    /// than `most` threads.
    pub(super) fn of(table: &dyn Table, root: i32, started: u64, most: u32) -> Option<Self> {
        let first = table.process(root).filter(|process| process.started == started)?;
        let by_parent = table.children(root).is_none().then(|| by_parent(table));
        let mut family = Family::default();
        family.add(root, first);
        let mut next = vec![root];
        while let Some(parent) = next.pop() {
            let children = match &by_parent {
                Some(lists) => lists.get(&parent).cloned().unwrap_or_default(),
                None => table.children(parent).unwrap_or_default(),
            };
            for child in children {
                if family.threads > most || family.members.len() >= MOST {
                    return Some(family);
                }
                if !family.members.contains_key(&child)
                    && let Some(process) = table.process(child)
                    && family.members.contains_key(&process.parent)
                {
                    family.add(child, process);
                    next.push(child);
                }
            }
        }
        Some(family)
    }

    fn add(&mut self, pid: i32, process: Process) {
        self.threads = self.threads.saturating_add(process.threads.max(1));
        self.members.insert(pid, process);
    }

    /// An upper bound of what all of them use, in bytes.
    pub(super) fn resident(&self, table: &dyn Table) -> u64 {
        self.members.keys().map(|pid| table.resident(*pid)).fold(0, u64::saturating_add)
    }

    /// What all of them use, in bytes; of those that are still themselves.
    pub(super) fn proportional(&self, table: &dyn Table) -> u64 {
        let used = |(pid, process): (&i32, &Process)| {
            let used = table.proportional(*pid).unwrap_or_else(|| table.resident(*pid));
            let same = table.process(*pid).is_some_and(|now| now.started == process.started);
            if same { used } else { 0 }
        };
        self.members.iter().map(used).fold(0, u64::saturating_add)
    }
}

fn by_parent(table: &dyn Table) -> HashMap<i32, Vec<i32>> {
    let mut lists: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in table.all() {
        if let Some(process) = table.process(pid) {
            lists.entry(process.parent).or_default().push(pid);
        }
    }
    lists
}

/// The machine's own `/proc`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host;

impl Table for Host {
    fn process(&self, pid: i32) -> Option<Process> {
        // A name is bytes of the process's own choice.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        stat_line(&String::from_utf8_lossy(&stat))
    }

    fn children(&self, pid: i32) -> Option<Vec<i32>> {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
        let mut children = Vec::new();
        for thread in threads.flatten() {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(list) => children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
                // Either it has just ended, or there are no such lists.
                Err(_) if thread.path().exists() => return None,
                Err(_) => {}
            }
        }
        Some(children)
    }

    fn all(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn resident(&self, pid: i32) -> u64 {
        let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        kilobytes(&status, &["RssAnon:", "RssShmem:", "VmSwap:"]).unwrap_or(0)
    }

    fn proportional(&self, pid: i32) -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        kilobytes(&rollup, &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"])
    }
}

/// Reads `PID (NAME) STATE PARENT …`; the name may hold anything, parentheses and line breaks included.
fn stat_line(stat: &str) -> Option<Process> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let threads = fields.nth(15)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Process { parent, threads, started })
}

/// The sum of these values, which stand in kibibytes, in bytes. `None` if none is there.
fn kilobytes(text: &str, keys: &[&str]) -> Option<u64> {
    let value = |line: &str| {
        let rest = keys.iter().find_map(|key| line.strip_prefix(key))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let values: Vec<u64> = text.lines().filter_map(value).collect();
    (!values.is_empty()).then(|| values.into_iter().fold(0, u64::saturating_add).saturating_mul(1024))
}

#[cfg(test)]
pub(super) mod tests;
