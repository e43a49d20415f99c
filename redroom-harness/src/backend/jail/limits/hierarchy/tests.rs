//! Texts of real systems, shortened.

use super::*;

const SYSTEMD: &str = "\
25 30 0:23 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
29 25 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
";
const HYBRID: &str = "\
31 25 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
36 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
37 31 0:33 / /sys/fs/cgroup/memory rw,nosuid shared:16 - cgroup cgroup rw,memory
38 31 0:34 / /sys/fs/cgroup/pids rw,nosuid shared:17 - cgroup cgroup rw,pids
39 31 0:35 / /sys/fs/cgroup/cpuset rw,nosuid shared:18 - cgroup cgroup rw,cpuset
";
/// A container of a version 1 system without a namespace of groups.
const CONTAINER_ONE: &str = "\
910 900 0:40 / /sys ro,nosuid - sysfs sysfs ro
911 910 0:41 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755
912 911 0:33 /docker/4a1b /sys/fs/cgroup/memory ro,nosuid master:16 - cgroup cgroup rw,memory
";
const CONTAINER_TWO: &str = "\
1010 1000 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
";

fn paths(folders: &[PathBuf]) -> Vec<&str> {
    folders.iter().map(|folder| folder.to_str().unwrap()).collect()
}

#[test]
fn under_systemd_every_group_above_is_known() {
    let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope\n";
    let mounted = Mounted::read(own, SYSTEMD);
    assert_eq!(
        paths(&mounted.two),
        [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup/user.slice/user-1000.slice",
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service",
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice",
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope",
        ]
    );
    assert_eq!(mounted.one, []);
}

#[test]
fn a_hybrid_system_has_its_controllers_in_version_one() {
    let own = "12:memory:/user.slice\n11:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/x\n0::/user.slice/x\n";
    let mounted = Mounted::read(own, HYBRID);
    assert_eq!(mounted.two.len(), 3);
    let one: Vec<(Controller, &str)> =
        mounted.one.iter().map(|(controller, folder)| (*controller, folder.to_str().unwrap())).collect();
    assert_eq!(
        one,
        [
            (Controller::Cpu, "/sys/fs/cgroup/cpu,cpuacct"),
            (Controller::Memory, "/sys/fs/cgroup/memory"),
            (Controller::Pids, "/sys/fs/cgroup/pids"),
        ]
    );
}

#[test]
fn a_container_sees_its_own_part() {
    let one = Mounted::read("4:memory:/docker/4a1b\n", CONTAINER_ONE);
    assert_eq!(one.one, [(Controller::Memory, PathBuf::from("/sys/fs/cgroup/memory"))]);
    let two = Mounted::read("0::/\n", CONTAINER_TWO);
    assert_eq!(paths(&two.two), ["/sys/fs/cgroup"]);
    let outside = Mounted::read("0::/../../user.slice\n", CONTAINER_TWO);
    assert_eq!(outside.two.len(), 0, "a group that is not mounted here is no place");
}

#[test]
fn what_cannot_be_read_is_no_place() {
    for (groups, mounts) in [("", ""), ("0::/a\n", ""), ("", SYSTEMD), ("0::/\n", "1 2 3\n - \n - cgroup2\n\n")] {
        assert_eq!(Mounted::read(groups, mounts), Mounted::default(), "{groups:?} {mounts:?}");
    }
    assert_eq!(below("/docker/4a1b/x", "/docker/4a1b"), Some("x"));
    assert_eq!(below("/docker/4a1bc", "/docker/4a1b"), None);
    assert_eq!(unescaped("/a\\040b\\134c\\9"), PathBuf::from("/a b\\c\\9"));
}

fn candidate(folder: &str, writable: bool, has_processes: bool) -> Candidate {
    Candidate {
        folder: folder.into(),
        available: Controller::ALL.to_vec(),
        is_root: folder == "/top",
        has_processes,
        writable,
    }
}

fn two(candidates: Vec<Candidate>) -> Hierarchies {
    Hierarchies { two: candidates, one: Vec::new() }
}

#[test]
fn the_highest_group_of_ones_own_is_the_place() {
    let user = two(vec![
        candidate("/top", false, true),
        candidate("/top/user", false, false),
        candidate("/top/user/own", true, false),
        candidate("/top/user/own/app", true, false),
        candidate("/top/user/own/app/scope", true, true),
    ]);
    let expected = Place { version: Version::Two, folder: "/top/user/own/redroom".into() };
    assert_eq!(user.place(Controller::Memory), Ok(expected.clone()));
    assert_eq!(user.places().collect::<Vec<_>>(), [expected]);
    let root = two(vec![candidate("/top", true, true), candidate("/top/a", true, true)]);
    assert_eq!(root.place(Controller::Cpu).unwrap().folder, Path::new("/top/redroom"));
}

#[test]
fn a_group_with_processes_hands_nothing_down() {
    let container = two(vec![candidate("/ns", true, true)]);
    assert!(container.place(Controller::Memory).unwrap_err().contains("processes of its own"));
    let session = two(vec![candidate("/top", false, true), candidate("/top/session", false, true)]);
    assert!(session.place(Controller::Memory).unwrap_err().contains("systemd-run"));
    assert!(Hierarchies::none().place(Controller::Pids).unwrap_err().contains("pids"));
}

#[test]
fn a_controller_that_version_two_lacks_is_taken_from_version_one() {
    let mut mixed = two(vec![Candidate { available: vec![Controller::Pids], ..candidate("/top", true, true) }]);
    mixed.one.push((Controller::Memory, "/one/memory".into()));
    assert_eq!(mixed.place(Controller::Pids).unwrap().version, Version::Two);
    assert_eq!(mixed.place(Controller::Memory).unwrap().folder, Path::new("/one/memory/redroom"));
    assert!(mixed.place(Controller::Cpu).is_err());
    let bare = two(vec![Candidate { available: Vec::new(), ..candidate("/top", true, true) }]);
    assert!(bare.place(Controller::Memory).is_err());
}

#[test]
fn controllers_are_whole_words() {
    assert_eq!(
        controllers("cpuset cpu io memory hugetlb pids rdma\n"),
        [Controller::Cpu, Controller::Memory, Controller::Pids]
    );
    assert_eq!(controllers("cpuacct memory_hidden\n"), []);
}

#[test]
fn this_very_process_can_be_looked_at() {
    // Whatever the machine has: it must not fail, and what it names must be there.
    for place in Hierarchies::of_this_process().places() {
        assert!(place.folder.parent().unwrap().is_dir(), "{place:?}");
    }
}
