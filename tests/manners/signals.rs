//! A suite that is interrupted or killed.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::suite::{PATIENCE, Place, exists, start, until};

const SOON: Duration = Duration::from_secs(5);

pub(crate) fn an_interrupted_suite_is_gone_within_five_seconds() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let suite = start(&mut place.suite(&["in_mid_turn"]));
        until("the turn", PATIENCE, || exists(&place.mark()));
        assert_eq!(place.containers().len(), 2);
        let sent = Instant::now();
        suite.signal(signal);
        suite.end(SOON).expect(code, &["interrupted"]);
        assert!(sent.elapsed() < SOON);
        until("nothing left", SOON.saturating_sub(sent.elapsed()), || place.containers().is_empty());
    }
}

pub(crate) fn a_suite_that_is_told_to_end_while_it_starts_leaves_nothing() {
    for role in ["slot", "agent"] {
        let place = Place::new();
        let suite = start(&mut place.suite(&["in_mid_turn"]));
        until("a container", PATIENCE, || place.containers().iter().any(|container| container.role == role));
        let sent = Instant::now();
        suite.signal(Signal::TERM);
        suite.end(SOON).expect(143, &["interrupted"]);
        until("nothing left", SOON.saturating_sub(sent.elapsed()), || place.containers().is_empty());
    }
}

pub(crate) fn a_killed_suite_runs_nothing_and_the_next_start_cleans_up() {
    let place = Place::new();
    for _ in 0..3 {
        let suite = start(&mut place.suite(&["in_mid_turn"]));
        until("the turn", PATIENCE, || exists(&place.mark()));
        std::fs::remove_file(place.mark()).unwrap();
        let others: Vec<String> = place.containers().into_iter().map(|container| container.id).collect();
        assert_eq!(others.len(), 2, "what the one before left behind was not removed");
        suite.signal(Signal::KILL);
        assert_eq!(suite.end(SOON).code, None);
        until("nothing running", SOON, || place.containers().iter().all(|container| !container.running));
    }
    place.run(&["moments::next"]).expect(0, &["1 passed"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}
