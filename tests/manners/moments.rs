//! A suite that is killed, at one moment after the other. A second one beside it goes on undisturbed, and the next start leaves nothing.

use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::engine::{Container, Line, Moment};
use crate::fixture;
use crate::processes::{descendants, runs};
use crate::suite::{PATIENCE, Place, Running, start, until};

/// How many kills: twenty, or ten times as many where there is time.
fn kills() -> usize {
    if std::env::var_os("REDROOM_TEST_SOAK").is_some_and(|value| value == "1") { 200 } else { 20 }
}

/// So many moments, over the whole length.
fn spread(kills: usize, moments: usize) -> impl Iterator<Item = usize> {
    (0..kills).map(move |kill| kill * moments / kills)
}

pub(crate) fn a_suite_that_is_killed_at_any_call_leaves_nothing() {
    let place = Place::new();
    let calls = {
        let line = Line::to_engine(place.path("first.sock"));
        let mut suite = place.suite(&["beside::asserts"]);
        start(suite.env("DOCKER_HOST", line.host())).end(PATIENCE).expect(0, &["1 passed"]);
        line.calls()
    };
    assert!(calls.len() >= 12, "{calls:#?}");
    let mut other = another(&place, "docker");
    let session = place.containers().into_iter().next().unwrap().session;
    for (number, call) in spread(kills(), calls.len()).enumerate() {
        let line = Line::to_engine(place.path(&format!("{number}.sock")));
        let mut suite = place.suite(&["beside::asserts"]);
        suite.env("DOCKER_HOST", line.host());
        let (sender, pid) = std::sync::mpsc::sync_channel(1);
        // Every other call reaches the engine all the same.
        let reaches = number % 2 == 1;
        line.at(Moment::Nth(call), move |line| {
            let pid = pid.recv().unwrap();
            if reaches {
                std::thread::spawn(move || kill_process(pid, Signal::KILL));
            } else {
                kill_process(pid, Signal::KILL).unwrap();
                line.cut();
            }
        });
        let suite = start(&mut suite);
        sender.send(suite.pid()).unwrap();
        // One that was a call shorter has ended by itself.
        let ended = suite.end(PATIENCE);
        assert!(matches!(ended.code, None | Some(0)), "{call}: {ended:#?}");
        assert!(other.still_runs(), "killed at {}: {:#?}", calls[call], other.end(PATIENCE));
        // By itself: the next one would remove it.
        let others = |container: &Container| container.session == session;
        let ends = || place.containers().iter().all(|container| !container.running || others(container));
        until(&format!("nothing running of what was killed at {}", calls[call]), Duration::from_secs(10), ends);
    }
    tell(&place, other);
    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn a_suite_that_is_killed_at_any_time_in_a_jail_leaves_nothing() {
    let place = Place::new();
    let suite = |arguments: &[&str]| {
        let mut suite = place.suite(arguments);
        suite.env("REDROOM_BACKEND", "jail");
        suite
    };
    let whole = start(&mut suite(&["beside::asserts"])).end(PATIENCE);
    whole.expect(0, &["1 passed"]);
    let mut other = another(&place, "jail");
    for number in 0..kills() {
        let suite = start(&mut suite(&["beside::asserts"]));
        let before = whole.took * u32::try_from(number).unwrap() / u32::try_from(kills()).unwrap();
        // The moment is a time: there is nothing to wait for.
        std::thread::sleep(before);
        let started = descendants(suite.pid().as_raw_nonzero().get());
        suite.signal(Signal::KILL);
        let ended = suite.end(PATIENCE);
        assert!(matches!(ended.code, None | Some(0)), "after {before:?}: {ended:#?}");
        until("none of its processes is left", Duration::from_secs(10), || !started.iter().any(|pid| runs(*pid)));
        assert!(other.still_runs(), "killed after {before:?}: {:#?}", other.end(PATIENCE));
    }
    tell(&place, other);
    start(&mut suite(&["moments::next"])).end(PATIENCE).expect(0, &["1 passed"]);
}

/// A suite that goes on until it is told.
fn another(place: &Place, backend: &str) -> Running {
    let mut other = place.suite(&["until_told"]);
    other.env("REDROOM_BACKEND", backend);
    other.env(fixture::TOLD, place.path("told")).env(fixture::MARK, place.path("other"));
    let other = start(&mut other);
    until("the other's first turn", PATIENCE, || place.path("other").exists());
    other
}

fn tell(place: &Place, other: Running) {
    std::fs::write(place.path("told"), "").unwrap();
    other.end(PATIENCE).expect(0, &["1 passed"]);
}
