//! What this process and its jails have of the machine.

use std::path::Path;

/// What a process has that could grow.
#[derive(Debug)]
pub(crate) struct Holdings {
    descriptors: usize,
    threads: usize,
    processes: usize,
    groups: usize,
    mounts: usize,
    temporary: usize,
}

impl Holdings {
    pub(crate) fn now(session: &str) -> Self {
        let names = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        let lines = |file: &str| std::fs::read_to_string(file).map_or(0, |text| text.lines().count());
        Holdings {
            descriptors: names("/proc/self/fd"),
            threads: names("/proc/self/task"),
            processes: kin(),
            groups: groups(session),
            mounts: lines("/proc/self/mountinfo"),
            temporary: own(&std::env::temp_dir()),
        }
    }

    pub(crate) fn are_within(&self, before: &Holdings) -> bool {
        // The runtime starts a thread for what blocks, and ends it when it was idle for a while.
        let some = before.threads + 4;
        // The next helper may have been under way before, and be there now: a socket, two processes, two trees, three groups.
        self.descriptors <= before.descriptors + 5
            && self.threads <= some
            && self.processes <= before.processes + 2
            && self.groups <= before.groups + 3
            && self.mounts <= before.mounts
            && self.temporary <= before.temporary
    }
}

/// Processes of this executable and their children, the dead among them: a keeper, the next sandbox's helper, and at most one that
/// has not been waited for.
fn kin() -> usize {
    let keepers = children(std::process::id());
    keepers.len() + keepers.iter().map(|keeper| children(*keeper).len()).sum::<usize>()
}

/// The children of a process, the dead among them.
pub(crate) fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Control groups of the session, in the node of ours at the top of a hierarchy or where this process is.
fn groups(session: &str) -> usize {
    let tops = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let nodes = tops.chain(["/sys/fs/cgroup".into()]).map(|top| top.join("redroom"));
    let names = nodes.filter_map(|node| std::fs::read_dir(node).ok()).flatten().flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().contains(session)).count()
}

fn own(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with("redroom")).count()
}
