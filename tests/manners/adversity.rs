//! A disk that is full, a clock that jumps.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture;
use crate::suite::{PATIENCE, Place, start, until};

/// Folders of the suite on a small disk of their own, in a mount namespace of its own. `None` where that needs a right that is not there.
fn on_small_disks(place: &Place, attack: &str, disks: &[(&Path, &str)]) -> Option<Command> {
    let allowed = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("not tried: no mount namespace can be made here");
        return None;
    }
    let suite = place.suite(&[attack]);
    let mounts: String = disks
        .iter()
        .map(|(folder, options)| format!("mkdir -p {0} && mount -t tmpfs -o {options} disk {0} && ", folder.display()))
        .collect();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &format!("{mounts}exec \"$@\"",), "sh"])
        .arg(suite.get_program())
        .args(suite.get_args());
    for (name, value) in suite.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(place.path(""));
    Some(command)
}

pub(crate) fn a_full_disk_is_told_and_never_passed_over() {
    let place = Place::new();
    let out = place.path("out");
    let Some(mut suite) = on_small_disks(&place, "beside::prints_much", &[(&out, "size=512k")]) else { return };
    start(&mut suite).end(PATIENCE).expect(101, &["1 failed", "evidence_incomplete"]);

    // No lock can be made, so no session begins.
    let run = place.path("run");
    let Some(mut suite) = on_small_disks(&place, "moments::next", &[(&run, "size=64k,nr_inodes=2")]) else { return };
    start(&mut suite).end(PATIENCE).expect(2, &["1 failed", "run_folder_unusable", "No space left"]);
    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn a_clock_that_jumps_cuts_no_run_short_and_leaves_none_over() {
    let Some(library) = library() else {
        eprintln!("not tried: libfaketime is not here");
        return;
    };
    let place = Place::new();
    let clock = place.path("clock");
    std::fs::write(&clock, "+0").unwrap();
    let told = place.path("told");
    let mut suite = place.suite(&["until_told"]);
    suite.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
    suite.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env(fixture::TOLD, &told).env(fixture::LEASE, "6000");
    let mut suite = start(&mut suite);
    let turn = |suite: &mut crate::suite::Running| {
        until("a turn", PATIENCE, || place.mark().exists() || !suite.still_runs());
        let _ = std::fs::remove_file(place.mark());
    };
    turn(&mut suite);
    let beat = || heartbeats(&place.path("run/redroom/sessions"));
    for jump in ["+2d", "-2d", "+3y"] {
        std::fs::write(&clock, jump).unwrap();
        let before = beat();
        until("a heartbeat", PATIENCE, || beat() != before);
        // One may have been under way; the next is all within the new time.
        turn(&mut suite);
        turn(&mut suite);
        // Neither does a suite that starts now, with the right time, take it for dead.
        place.run(&["moments::next"]).expect(0, &["1 passed"]);
        assert!(suite.still_runs(), "{jump}: {:#?}", suite.end(PATIENCE));
    }
    std::fs::write(&told, "").unwrap();
    suite.end(PATIENCE).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

/// What sessions have written last of how long they live.
fn heartbeats(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let locks = files.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
    locks.filter_map(|lock| std::fs::read_to_string(lock).ok()).collect()
}

/// Where Debian and others put the library.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|path| path.exists())
}
