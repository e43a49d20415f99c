//! What the suite relies on goes away in the middle.

use std::time::{Duration, Instant};

use crate::engine::{self, Line};
use crate::suite::{PATIENCE, Place, start, until};

pub(crate) fn a_killed_sidecar_ends_its_run_and_the_next_gets_a_new_one() {
    let place = Place::new();
    let suite = start(place.suite(&["moments"]).env("REDROOM_PARALLEL", "1"));
    until("the turn", PATIENCE, || place.mark().exists());
    let slot = place.containers().into_iter().find(|container| container.role == "slot").unwrap();
    let killed = Instant::now();
    engine::kill(&slot);
    let ended = suite.end(PATIENCE);
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    ended.expect(2, &["1 passed; 1 failed", "sidecar_lost"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn an_engine_that_is_lost_ends_the_run_with_an_error() {
    let place = Place::new();
    let socket = place.path("line.sock");
    let line = Line::to_engine(socket.clone());
    let suite = start(place.suite(&["in_mid_turn"]).env("DOCKER_HOST", format!("unix://{}", socket.display())));
    until("the turn", PATIENCE, || place.mark().exists());
    let cut = Instant::now();
    line.cut();
    let ended = suite.end(PATIENCE);
    assert!(cut.elapsed() < Duration::from_secs(15), "{:?}", cut.elapsed());
    ended.expect(2, &["1 failed", "backend"]);
    until("nothing running", Duration::from_secs(5), || place.containers().iter().all(|container| !container.running));
    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}
