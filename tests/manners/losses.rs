//! What the suite relies on goes away in the middle.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::engine::{self, Line, Moment};
use crate::suite::{PATIENCE, Place, start, until};

pub(crate) fn a_killed_sidecar_ends_its_run_and_the_next_gets_a_new_one() {
    let place = Place::new();
    let suite = start(place.suite(&["moments::in_mid_turn", "moments::next"]).env("REDROOM_PARALLEL", "1"));
    until("the turn", PATIENCE, || place.mark().exists());
    let slot = place.containers().into_iter().find(|container| container.role == "slot").unwrap();
    let killed = Instant::now();
    engine::kill(&slot);
    let ended = suite.end(PATIENCE);
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    ended.expect(2, &["1 passed; 1 failed", "sidecar_lost"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

/// A suite whose way to the engine is a line of ours.
fn on_a_line(place: &Place, attack: &str) -> (Line, Command) {
    let line = Line::to_engine(place.path("line.sock"));
    let mut suite = place.suite(&[attack]);
    suite.env("DOCKER_HOST", line.host()).env("REDROOM_BACKEND", "docker");
    (line, suite)
}

/// Whatever became of a suite and its engine: nothing runs when both are back, and the next start leaves nothing.
fn nothing_is_left(place: &Place) {
    until("nothing running", Duration::from_secs(10), || place.containers().iter().all(|container| !container.running));
    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn an_engine_that_is_lost_ends_the_run_with_an_error() {
    let place = Place::new();
    let (line, mut suite) = on_a_line(&place, "in_mid_turn");
    let suite = start(&mut suite);
    until("the turn", PATIENCE, || place.mark().exists());
    let cut = Instant::now();
    line.cut();
    let ended = suite.end(PATIENCE);
    assert!(cut.elapsed() < Duration::from_secs(15), "{:?}", cut.elapsed());
    ended.expect(2, &["1 failed", "docker_lost"]);
    assert!(!ended.out.contains("sidecar_lost"), "the sidecar is not what was lost: {ended:#?}");
    nothing_is_left(&place);
}

pub(crate) fn an_engine_that_is_lost_in_mid_collection_ends_the_run_with_an_error() {
    // What was lost with it is told as well: by whoever was under way then, and not only by the removal that fails in any case.
    for (moment, what) in [
        (vec!["/exec/", "/pause"], "cannot look at a container"),
        (vec!["/exec/", "/pause", "/archive"], "cannot take files out of a sandbox"),
        (vec!["/exec/", "DELETE /containers/"], "cannot remove a container"),
    ] {
        let place = Place::new();
        let (line, mut suite) = on_a_line(&place, "beside::asserts");
        let lost = Arc::new(Mutex::new(None));
        let note = lost.clone();
        line.at(Moment::After(moment.clone()), move |line| {
            *note.lock().unwrap() = Some(Instant::now());
            line.cut();
        });
        let ended = start(&mut suite).end(PATIENCE);
        let lost = lost.lock().unwrap().unwrap_or_else(|| panic!("never came to {moment:?}: {:#?}", line.calls()));
        assert!(lost.elapsed() < Duration::from_secs(15), "{moment:?}: {:?}", lost.elapsed());
        ended.expect(101, &["1 failed", &format!("docker_lost (backend): {what}")]);
        nothing_is_left(&place);
    }
}

pub(crate) fn an_engine_that_hangs_ends_the_run_with_an_error() {
    let place = Place::new();
    let (line, mut suite) = on_a_line(&place, "in_mid_turn");
    let suite = start(&mut suite);
    until("the turn", PATIENCE, || place.mark().exists());
    let frozen = Instant::now();
    line.freeze();
    let ended = suite.end(PATIENCE);
    // The call's deadline alone would be two minutes, and there are several calls.
    assert!(frozen.elapsed() < Duration::from_secs(100), "{:?}", frozen.elapsed());
    ended.expect(2, &["1 failed", "docker_timeout", "hangs"]);
    line.thaw();
    nothing_is_left(&place);
}

pub(crate) fn an_engine_that_is_slow_is_waited_for() {
    let place = Place::new();
    let (line, mut suite) = on_a_line(&place, "beside::asserts");
    line.slow(Duration::from_millis(100));
    start(&mut suite).end(PATIENCE).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}
