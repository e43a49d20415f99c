//! What needs no rights runs for everybody; control groups are made where this process may, which is said where it may not.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;
use uuid::Uuid;

use super::group::sweep_after;
use super::*;
use crate::backend::session::Life;

const MIB: u64 = 1 << 20;

fn limits() -> SandboxLimits {
    SandboxLimits { cpus: 1.0, memory: 64 * MIB, pids: 20, file_size: 1 << 30, open_files: 512 }
}

fn here() -> Hierarchies {
    Hierarchies::of_this_process()
}

fn session() -> String {
    Uuid::new_v4().to_string()
}

/// A limiter with groups for memory and processes; `None`, said aloud, where this process can make none.
fn with_groups(limits: &SandboxLimits) -> Option<Limiter> {
    let limiter = Limiter::prepare(&here(), limits, &session(), "test").unwrap();
    if limiter.bounds().is_none() {
        return Some(limiter);
    }
    eprintln!("skipped: {}", limiter.best_effort()[0]);
    limiter.close().unwrap();
    None
}

/// A shell that waits for a line before it does anything.
struct Waiting(Child, Option<ChildStdin>);

impl Waiting {
    fn new(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        Waiting(child, stdin)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Moved by another, into all that there is.
    fn enter(&self, limiter: &Limiter) {
        limiter.admit(self.pid()).unwrap();
        limiter.groups.iter().for_each(|made| made.group.admit(self.pid()).unwrap());
    }

    /// Lets it go on; its input stays open.
    fn go(&mut self) {
        self.1.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn without_control_groups_everything_is_said_to_be_a_best_effort() {
    let limiter = Limiter::prepare(&Hierarchies::none(), &limits(), &session(), "slot-1").unwrap();
    let named: Vec<Limit> = limiter.best_effort().iter().map(|it| it.limit).collect();
    assert_eq!(named, [Limit::Memory, Limit::Pids, Limit::Cpus]);
    let text = limiter.best_effort()[0].to_string();
    assert!(text.starts_with("memory: each process") && text.contains("no memory controller"), "{text}");
    assert_eq!(limiter.bounds(), Some(Bounds { memory: Some(64 * MIB), threads: Some(22) }));
    assert_eq!(limiter.rlimits(), Rlimits::new(&limits(), false, false));
    assert!(!limiter.kill_all() && !limiter.memory_exceeded());
    limiter.close().unwrap();
    let stored = serde_json::to_string(&limiter.best_effort()[1]).unwrap();
    assert!(stored.starts_with(r#"{"limit":"pids","instead":"#), "{stored}");
}

#[test]
fn a_name_that_would_not_be_found_again_is_refused() {
    for (session, name) in [("session".to_owned(), "a"), (session(), ""), (session(), "../x")] {
        let error = Limiter::prepare(&Hierarchies::none(), &limits(), &session, name).unwrap_err();
        assert_eq!(error.code(), "invalid_group_name");
    }
}

#[test]
fn without_control_groups_a_sandbox_starts_on_as_many_processors_as_it_may_use() {
    let all = sched_getaffinity(None).unwrap().count() as usize;
    let own = |cpus: f64, name: &str| processors(cpus, name);
    if all > 1 {
        assert_eq!(own(0.5, "a").unwrap().len(), 1);
        assert_eq!(own(all as f64 - 0.5, "a"), None);
        let first: HashSet<usize> = (0..32).map(|slot| own(1.0, &format!("slot-{slot}")).unwrap()[0]).collect();
        assert!(first.len() > 1, "not all sandboxes on one processor");
        let limiter = Limiter::prepare(&Hierarchies::none(), &limits(), &session(), "slot-1").unwrap();
        let mut waiting = Waiting::new("nproc");
        waiting.enter(&limiter);
        waiting.go();
        assert_eq!(waiting.line().trim(), "1");
    }
    assert_eq!(own(all as f64, "a"), None);
}

/// A folder in place of a hierarchy of version 2: what is written to its files stays there.
fn pretended(folder: &std::path::Path) -> (hierarchy::Place, SandboxLimits) {
    let place = hierarchy::Place::under(hierarchy::Version::Two, folder);
    std::fs::create_dir(&place.folder).unwrap();
    for group in [folder, &place.folder] {
        std::fs::write(group.join("cgroup.subtree_control"), "").unwrap();
    }
    (place, limits())
}

#[test]
fn a_node_of_ours_hands_controllers_down_so_that_nobody_takes_them_away() {
    let folder = tempfile::tempdir().unwrap();
    let (place, limits) = pretended(folder.path());
    let mut group = Group::create(&place, "redroom-x").unwrap();
    assert_eq!(group.folder(), folder.path().join("redroom/redroom-x"));
    std::fs::write(group.folder().join("pids.max"), "").unwrap();
    group.hold(Controller::Pids, &limits).unwrap();
    for above in [folder.path(), &place.folder] {
        assert_eq!(std::fs::read_to_string(above.join("cgroup.subtree_control")).unwrap(), "+pids");
    }
}

#[test]
fn a_node_is_there_as_long_as_it_has_groups() {
    let folder = tempfile::tempdir().unwrap();
    let place = hierarchy::Place::under(hierarchy::Version::One, folder.path());
    let [one, two] = ["one", "two"].map(|name| Group::create(&place, name).unwrap());
    one.remove().unwrap();
    assert!(place.folder.is_dir());
    two.remove().unwrap();
    assert!(!place.folder.exists());
    Group::create(&place, "three").unwrap().remove().unwrap();
    assert!(folder.path().is_dir(), "it is not ours");
}

#[test]
fn a_group_kills_for_memory_and_says_so() {
    let Some(limiter) = with_groups(&limits()) else { return };
    // The pipe's reader keeps everything: there is no end of a line.
    let mut waiting = Waiting::new("head -c 200000000 /dev/zero | tail -n 1 | wc -c; echo done");
    waiting.enter(&limiter);
    assert!(!limiter.memory_exceeded());
    waiting.go();
    assert!(waiting.0.wait().is_ok());
    assert!(limiter.memory_exceeded());
    assert_eq!(limiter.rlimits(), Rlimits::new(&limits(), true, true));
    limiter.close().unwrap();
    limiter.close().unwrap();
}

#[test]
fn a_group_lets_no_more_processes_start() {
    let Some(limiter) = with_groups(&limits()) else { return };
    let script = "for n in $(seq 100); do sleep 60 & done; echo all";
    let mut waiting = Waiting::new(&format!("({script}) 2>/dev/null || echo refused"));
    waiting.enter(&limiter);
    waiting.go();
    assert_eq!(waiting.line().trim(), "refused");
    assert!(limiter.kill_all());
    let begun = Instant::now();
    limiter.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(waiting.0.wait().unwrap().signal() == Some(9) || waiting.0.wait().unwrap().code().is_some());
}

#[test]
fn a_process_enters_by_writing_a_zero() {
    let Some(limiter) = with_groups(&limits()) else { return };
    let mut shell = Command::new("sleep").arg("60").spawn().unwrap();
    let doors = limiter.admit(Pid::from_child(&shell)).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    for (door, made) in doors.into_iter().zip(limiter.groups.iter().filter(|made| made.group.is_version_one())) {
        let entered =
            Command::new("sh").args(["-c", "echo 0 >&0; cat /proc/self/cgroup"]).stdin(door).output().unwrap();
        let groups = String::from_utf8(entered.stdout).unwrap();
        let name = made.group.folder().file_name().unwrap().to_str().unwrap();
        let controller = made.controllers[0].word();
        let inside = |line: &str| line.contains(&format!(":{controller}:")) && line.ends_with(name);
        assert!(groups.lines().any(inside), "{controller}: {groups}");
    }
    limiter.close().unwrap();
}

#[test]
fn closing_ends_what_ignores_every_signal_that_can_be_ignored() {
    let Some(limiter) = with_groups(&limits()) else { return };
    let mut waiting = Waiting::new("trap '' TERM HUP INT; setsid sleep 1000 & echo there; wait; sleep 1000");
    waiting.enter(&limiter);
    waiting.go();
    assert_eq!(waiting.line().trim(), "there");
    limiter.close().unwrap();
    assert_eq!(waiting.0.wait().unwrap().signal(), Some(9));
}

#[test]
fn time_on_processors_is_shared_out() {
    let Some(limiter) = with_groups(&SandboxLimits { cpus: 0.2, ..limits() }) else { return };
    if limiter.best_effort().iter().any(|it| it.limit == Limit::Cpus) {
        return limiter.close().unwrap();
    }
    // User time and system time of a second's busy loop, in hundredths of a second.
    let script = "timeout 1 sh -c 'while :; do :; done'; cat /proc/$$/stat";
    let mut waiting = Waiting::new(script);
    waiting.enter(&limiter);
    waiting.go();
    let line = waiting.line();
    let fields: Vec<u64> =
        line.rsplit(") ").next().unwrap().split(' ').filter_map(|field| field.parse().ok()).collect();
    // Of children that were waited for.
    let ticks = fields[12] + fields[13];
    assert!((2..=60).contains(&ticks), "{ticks} hundredths of a second at a fifth of a processor: {line}");
    limiter.close().unwrap();
}

#[test]
fn a_sweep_takes_what_a_dead_session_left_and_nothing_else() {
    let Some(dead) = with_groups(&limits()) else { return };
    let (live, alive) = (session(), Limiter::prepare(&here(), &limits(), &session(), "unused").unwrap());
    alive.close().unwrap();
    let living = Limiter::prepare(&here(), &limits(), &live, "slot-1").unwrap();
    let foreign: HashSet<String> = names();
    let mut waiting = Waiting::new("sleep 1000");
    waiting.enter(&dead);
    waiting.go();
    let dead_name = dead.groups[0].group.folder().file_name().unwrap().to_str().unwrap().to_owned();
    // Other tests have groups, too.
    let life = |session: &str| if dead_name.contains(session) { Life::Dead } else { Life::Lives };
    let swept = sweep(&here(), life);
    assert_eq!(swept, [dead_name.as_str()]);
    assert_eq!(waiting.0.wait().unwrap().signal(), Some(9), "what was left in it is killed");
    assert!(!names().contains(&dead_name));
    assert!(names().iter().any(|name| name.contains(&live)) && foreign.contains(&dead_name));
    living.close().unwrap();
}

#[test]
fn a_sweep_leaves_what_may_be_another_folders_session_until_nothing_runs_in_it() {
    let Some(limiter) = with_groups(&limits()) else { return };
    let mut waiting = Waiting::new("exec sleep 1000");
    waiting.enter(&limiter);
    waiting.go();
    let name = limiter.groups[0].group.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let life = |session: &str| if name.contains(session) { Life::Unknown } else { Life::Lives };
    assert!(sweep_after(Duration::ZERO, &here(), life).is_empty());
    assert!(waiting.0.try_wait().unwrap().is_none(), "it was killed");
    waiting.0.kill().unwrap();
    waiting.0.wait().unwrap();
    assert!(sweep(&here(), life).is_empty(), "it may just have been made");
    assert_eq!(sweep_after(Duration::ZERO, &here(), life), [name.as_str()]);
}

fn names() -> HashSet<String> {
    let folders = here().places().map(|place| place.folder).collect::<Vec<_>>();
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
