//! A suite that neither goes on nor ends: stopped, in a debugger, swapped out. What it has started ends with its lease.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::fixture;
use crate::processes::{descendants, runs};
use crate::suite::{PATIENCE, Place, Running, start, until};

const LEASE: Duration = Duration::from_secs(4);
/// On a busy machine whoever ends takes a moment for it.
const MOMENT: Duration = Duration::from_secs(15);

pub(crate) fn a_suite_that_hangs_is_gone_within_its_lease() {
    let place = Place::new();
    let (hanging, other) = hanging_beside_another(&place, "docker");
    let sessions = |role: &str| {
        let found = place.containers().into_iter().filter(|container| container.role == role && container.running);
        found.map(|container| container.session).collect::<Vec<_>>()
    };
    // Both have an agent; the one that is there no more after its lease is the hanging one's.
    let before = sessions("agent");
    assert_eq!(before.len(), 2, "{:?}", place.containers());
    hanging.signal(Signal::STOP);
    let stopped = Instant::now();
    until("nothing of it runs", LEASE * 5 / 4 + MOMENT, || sessions("agent").len() == 1 && sessions("slot").len() == 1);
    assert!(stopped.elapsed() > LEASE, "it was given no time: {:?}", stopped.elapsed());
    let alive = sessions("slot").concat();
    assert!(before.contains(&alive) && sessions("agent").concat() == alive, "half of each is left");

    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    let left: Vec<_> = place.containers().into_iter().filter(|container| container.session != alive).collect();
    assert!(left.is_empty(), "the next start did not remove what outlived its lease: {left:?}");

    comes_back(hanging, other, &place);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn a_suite_that_hangs_in_a_jail_is_gone_within_its_lease() {
    let place = Place::new();
    let (hanging, other) = hanging_beside_another(&place, "jail");
    let before = descendants(hanging.pid().as_raw_nonzero().get());
    assert!(before.len() >= 4, "keeper, helper, first process and the agent: {before:?}");
    hanging.signal(Signal::STOP);
    let stopped = Instant::now();
    until("nothing of it runs", LEASE * 5 / 4 + MOMENT, || before.iter().all(|pid| !runs(*pid)));
    assert!(stopped.elapsed() > LEASE, "it was given no time: {:?}", stopped.elapsed());
    start(place.suite(&["moments::next"]).env("REDROOM_BACKEND", "jail")).end(PATIENCE).expect(0, &["1 passed"]);
    comes_back(hanging, other, &place);
}

/// A suite in the middle of a turn, with a short lease, and one beside it that goes on until it is told.
fn hanging_beside_another(place: &Place, backend: &str) -> (Running, Running) {
    let told = place.path("told");
    let mut other = place.suite(&["until_told"]);
    other.env("REDROOM_BACKEND", backend).env(fixture::TOLD, &told).env(fixture::MARK, place.path("other"));
    let other = start(&mut other);
    until("the other's first turn", PATIENCE, || place.path("other").exists());
    let mut hanging = place.suite(&["in_mid_turn"]);
    hanging.env("REDROOM_BACKEND", backend).env(fixture::LEASE, LEASE.as_millis().to_string());
    let hanging = start(&mut hanging);
    until("the turn", PATIENCE, || place.mark().exists());
    (hanging, other)
}

/// The one that hung says so, and the other has noticed nothing.
fn comes_back(hanging: Running, mut other: Running, place: &Place) {
    hanging.signal(Signal::CONT);
    hanging.end(PATIENCE).expect(2, &["1 failed", "lease_over", "Suite::lease"]);
    assert!(other.still_runs(), "{:?}", other.end(PATIENCE));
    fs::write(place.path("told"), "").unwrap();
    other.end(PATIENCE).expect(0, &["1 passed"]);
}
