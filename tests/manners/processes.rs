//! Processes of this machine, as its kernel tells of them.

use std::fs;

/// Every process that a process has started, and those that these have started.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, other)| *other == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

pub(crate) fn runs(pid: i32) -> bool {
    // One that has ended waits for a parent that is stopped.
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// A process's state, and its parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
