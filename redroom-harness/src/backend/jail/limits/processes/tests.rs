use std::cell::RefCell;

use super::*;

/// A system that is made up.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) processes: HashMap<i32, Process>,
    pub(crate) resident: HashMap<i32, u64>,
    pub(crate) proportional: HashMap<i32, u64>,
    pub(crate) lists: bool,
    /// Listed as children although they are not, or not any more.
    pub(crate) strays: Vec<i32>,
    pub(crate) asked: RefCell<usize>,
}

impl Fake {
    /// Processes as (pid, parent, threads, resident).
    pub(crate) fn of(processes: &[(i32, i32, u32, u64)]) -> Self {
        let mut fake = Fake { lists: true, ..Fake::default() };
        for (pid, parent, threads, resident) in processes {
            fake.processes.insert(*pid, Process { parent: *parent, threads: *threads, started: 100 });
            fake.resident.insert(*pid, *resident);
        }
        fake
    }
}

impl Table for Fake {
    fn process(&self, pid: i32) -> Option<Process> {
        *self.asked.borrow_mut() += 1;
        self.processes.get(&pid).copied()
    }

    fn children(&self, pid: i32) -> Option<Vec<i32>> {
        let children = self.processes.iter().filter(|(_, process)| process.parent == pid).map(|(child, _)| *child);
        self.lists.then(|| children.chain(self.strays.iter().copied()).collect())
    }

    fn all(&self) -> Vec<i32> {
        self.processes.keys().copied().collect()
    }

    fn resident(&self, pid: i32) -> u64 {
        self.resident.get(&pid).copied().unwrap_or(0)
    }

    fn proportional(&self, pid: i32) -> Option<u64> {
        self.proportional.get(&pid).copied()
    }
}

const TREE: [(i32, i32, u32, u64); 6] =
    [(1, 0, 1, 1000), (10, 1, 1, 1), (11, 10, 3, 2), (12, 11, 1, 4), (13, 10, 1, 8), (50, 1, 9, 16)];

#[test]
fn a_family_is_a_process_and_all_below_it() {
    for lists in [true, false] {
        let fake = Fake { lists, ..Fake::of(&TREE) };
        let family = Family::of(&fake, 10, 100, 1000).unwrap();
        assert_eq!((family.threads, family.resident(&fake)), (6, 1 + 2 + 4 + 8), "with lists: {lists}");
    }
}

#[test]
fn a_number_that_passed_to_somebody_else_is_not_ours() {
    let mut fake = Fake::of(&TREE);
    assert_eq!(Family::of(&fake, 10, 99, 1000), None, "the root itself");
    assert_eq!(Family::of(&fake, 77, 100, 1000), None, "the root is gone");
    fake.strays = vec![50, 77, 10];
    let family = Family::of(&fake, 10, 100, 1000).unwrap();
    assert_eq!(family.resident(&fake), 15, "a child that has another parent now");
    fake.proportional.insert(12, 1 << 40);
    fake.processes.get_mut(&12).unwrap().started = 200;
    assert_eq!(family.proportional(&fake), 1 + 2 + 8, "a child that was replaced since");
}

#[test]
fn counting_ends_soon_after_the_most_that_is_allowed() {
    let many: Vec<(i32, i32, u32, u64)> = (10..20_000).map(|pid| (pid, if pid == 10 { 1 } else { 10 }, 1, 1)).collect();
    let fake = Fake::of(&many);
    let family = Family::of(&fake, 10, 100, 64).unwrap();
    assert_eq!(family.threads, 65);
    assert!(*fake.asked.borrow() < 100);
}

#[test]
fn a_process_can_have_any_name() {
    let stat = "42 (a) R 1 (\n) x) S 7 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 5 0 123456 1000 200\n";
    assert_eq!(stat_line(stat), Some(Process { parent: 7, threads: 5, started: 123_456 }));
    for broken in ["", "42", "42 (a", "42 (a) S", "42 (a) S x"] {
        assert_eq!(stat_line(broken), None, "{broken:?}");
    }
}

#[test]
fn memory_is_added_up_without_the_pages_of_files() {
    let status = "Name:\tx\nVmRSS:\t 999 kB\nRssAnon:\t 10 kB\nRssFile:\t 5 kB\nRssShmem:\t 3 kB\nVmSwap:\t 1 kB\n";
    assert_eq!(kilobytes(status, &["RssAnon:", "RssShmem:", "VmSwap:"]), Some(14 * 1024));
    assert_eq!(kilobytes("Name:\tkthread\n", &["RssAnon:"]), None);
    assert_eq!(kilobytes("RssAnon: 99999999999999999999999 kB\n", &["RssAnon:"]), None);
}

#[test]
fn this_machine_tells_of_this_process() {
    let own = std::process::id() as i32;
    let process = Host.process(own).unwrap();
    assert_eq!(process.parent, rustix::process::getppid().map_or(0, |parent| parent.as_raw_pid()));
    assert!(process.started > 0 && Host.all().contains(&own));
    let (resident, proportional) = (Host.resident(own), Host.proportional(own).unwrap());
    assert!(resident > 100 << 10 && proportional > 0, "{resident} {proportional}");
}
