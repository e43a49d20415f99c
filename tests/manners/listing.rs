//! `--list`: the list and nothing else, from nothing but the executable.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::suite::{Ended, PATIENCE, Place, start};

const MOMENTS: &str =
    "fixture::moments::in_mid_finish: test\nfixture::moments::in_mid_turn: test\nfixture::moments::next: test\n";
const TWO: &str = "fixture::moments::in_mid_turn: test\nfixture::moments::next: test\n";
const NEXT: &str = "fixture::moments::next: test\n";
const IGNORED: &str = "fixture::outcomes::ignored: test\n";

fn list(place: &Place, arguments: &[&str]) -> Ended {
    let arguments: Vec<&str> = ["--list"].iter().chain(arguments).copied().collect();
    let mut suite = place.suite(&arguments);
    suite.env_clear().env("MANNERS_SUITE", "1").env("DOCKER_HOST", "unix:///nonexistent").env("REDROOM_PARALLEL", "0");
    start(&mut suite).end(PATIENCE)
}

pub(crate) fn the_list_is_printed_without_engine_home_or_network() {
    let place = Place::new();
    let listed = list(&place, &["--format", "terse"]);
    listed.expect(0, &[MOMENTS]);
    assert!(listed.out.lines().all(|line| line.ends_with(": test")) && listed.err.is_empty(), "{listed:?}");
    assert!(listed.took < Duration::from_secs(2), "{:?}", listed.took);
    assert_eq!(std::fs::read_dir(place.path("run")).unwrap().count(), 0);

    let trace = place.path("trace");
    let Ok(traced) = Command::new("strace")
        .args(["-f", "-e", "trace=network,clone,clone3,vfork", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .arg("--list")
        .env("MANNERS_SUITE", "1")
        .output()
    else {
        return;
    };
    assert!(traced.status.success());
    let calls = std::fs::read_to_string(trace).unwrap();
    let calls: Vec<&str> = calls.lines().filter(|line| line.contains('(')).collect();
    assert!(calls.is_empty(), "sockets or threads: {calls:?}");
}

pub(crate) fn the_list_is_filtered_as_libtest_filters() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["moments"][..], MOMENTS),
        (&["moments", "--skip", "in_mid"], NEXT),
        (&["fixture::moments::next", "--exact"], NEXT),
        (&["next", "--exact"], ""),
        (&["in_mid_turn", "moments::next"], TWO),
        (&["moments", "ignored", "--skip", "mid_turn", "--ignored"], IGNORED),
        (&["fixture::moments::next", "next", "fixture::moments::in_mid_turn", "--exact"], TWO),
        (&["--ignored"], IGNORED),
        (&["no such attack"], ""),
    ] {
        let listed = list(&place, arguments);
        let count = match expected.lines().count() {
            1 => "1 test".to_owned(),
            count => format!("{count} tests"),
        };
        let gap = if expected.is_empty() { "" } else { "\n" };
        let expected = format!("{expected}{gap}{count}, 0 benchmarks\n");
        assert_eq!((listed.code, listed.out, &listed.err[..]), (Some(0), expected, ""), "{arguments:?}");
    }
}

pub(crate) fn a_list_that_nobody_reads_or_that_cannot_be_written_does_not_panic() {
    let place = Place::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let listed = place.suite(&["--list"]).stdout(full).output().unwrap();
    let words = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert_eq!(listed.status.code(), Some(101), "{words}");
    assert!(words.contains("cannot be printed") && !words.contains("panicked"), "{words}");

    let mut unread = place.suite(&["--list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    let ended = unread.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]));
}
