//! A suite that is interrupted or killed.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engine::{Line, Moment};
use crate::suite::{PATIENCE, Place, start, until};

const SOON: Duration = Duration::from_secs(5);

pub(crate) fn an_interrupted_suite_is_gone_within_five_seconds() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let suite = start(&mut place.suite(&["in_mid_turn"]));
        until("the turn", PATIENCE, || place.mark().exists());
        assert_eq!(place.containers().len(), 2);
        let sent = Instant::now();
        suite.signal(signal);
        suite.end(SOON).expect(code, &["interrupted"]);
        assert!(sent.elapsed() < SOON);
        until("nothing left", SOON.saturating_sub(sent.elapsed()), || place.containers().is_empty());
    }
}

pub(crate) fn an_interrupted_suite_that_nobody_listens_to_ends_all_the_same() {
    let place = Place::new();
    let mut suite = place.suite(&["in_mid_turn"]);
    let mut suite = suite.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the turn", PATIENCE, || place.mark().exists());
    drop((suite.stdout.take(), suite.stderr.take()));
    kill_process(Pid::from_child(&suite), Signal::TERM).unwrap();
    let mut code = None;
    let sent = Instant::now();
    while code.is_none() && sent.elapsed() < SOON {
        code = suite.try_wait().unwrap().map(|status| status.code());
        std::thread::sleep(Duration::from_millis(10));
    }
    suite.kill().unwrap();
    suite.wait().unwrap();
    assert_eq!(code, Some(Some(143)));
    assert!(place.containers().is_empty(), "{:?}", place.containers());
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
    // While the engine is asked for one: a file of the image's, the slot, the agent.
    for number in 1..=3 {
        let place = Place::new();
        let line = Line::to_engine(place.path("line.sock"));
        let (sender, pid) = std::sync::mpsc::sync_channel(1);
        line.at(Moment::After(vec!["/containers/create"; number]), move |_| {
            kill_process(pid.recv().unwrap(), Signal::TERM).unwrap();
        });
        let suite =
            start(place.suite(&["in_mid_turn"]).env("DOCKER_HOST", line.host()).env("REDROOM_BACKEND", "docker"));
        sender.send(suite.pid()).unwrap();
        suite.end(PATIENCE).expect(143, &["interrupted"]);
        // By the time that another one has got its own, what was asked for before has come.
        Place::new().run(&["moments::next"]).expect(0, &["1 passed"]);
        assert!(place.containers().is_empty(), "{number}: {:?}", place.containers());
    }
}

pub(crate) fn a_killed_suite_runs_nothing_and_the_next_start_cleans_up() {
    let place = Place::new();
    for _ in 0..3 {
        let suite = start(&mut place.suite(&["in_mid_turn"]));
        until("the turn", PATIENCE, || place.mark().exists());
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
