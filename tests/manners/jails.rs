//! A suite on the jail that is interrupted, killed, or loses what it relies on.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::kin::{self, Process, children, descendants};
use crate::suite::{PATIENCE, Place, Running, start, until};

const SOON: Duration = Duration::from_secs(5);
const ENDS: [(Signal, Option<i32>); 3] = [(Signal::INT, Some(130)), (Signal::TERM, Some(143)), (Signal::KILL, None)];

fn suite(place: &Place, arguments: &[&str]) -> Command {
    let mut suite = place.suite(arguments);
    suite.env("REDROOM_BACKEND", "jail");
    suite
}

fn pid(suite: &Running) -> u32 {
    suite.pid().as_raw_nonzero().get().cast_unsigned()
}

/// The session of the only suite that has run in this place since its locks were last swept.
fn session(place: &Place) -> Option<String> {
    let locks = std::fs::read_dir(place.path("run/redroom/sessions")).into_iter().flatten().flatten();
    let names = locks.filter_map(|lock| lock.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".lock").map(str::to_owned)).next()
}

/// Sends each signal at a moment, and looks for what is left.
fn ended_at(attack: &str, moment: impl Fn(&Place, &Running)) {
    for (signal, code) in ENDS {
        let place = Place::new();
        let suite = start(&mut suite(&place, &[attack]));
        moment(&place, &suite);
        let (kin, session) = (descendants(pid(&suite)), session(&place).expect("a session has begun"));
        assert!(!kin.is_empty());
        let sent = Instant::now();
        suite.signal(signal);
        let ended = suite.end(SOON);
        assert_eq!(ended.code, code, "{ended:#?}");
        let left = || kin.iter().filter(|process| process.lives()).collect::<Vec<_>>();
        until("no process left", SOON.saturating_sub(sent.elapsed()), || left().is_empty());
        if code.is_some() {
            ended.expect(code.unwrap_or_default(), &["interrupted"]);
            assert_eq!(kin::groups(&session), [""; 0].map(std::path::PathBuf::from), "{signal:?}");
        } else {
            start(&mut self::suite(&place, &["moments::next"])).end(PATIENCE).expect(0, &["1 passed"]);
            assert_eq!(kin::groups(&session), [""; 0].map(std::path::PathBuf::from), "the next start sweeps");
        }
    }
}

/// One after the other: the keeper, the first helper, the first process.
pub(crate) fn a_suite_that_ends_while_a_jail_is_made_leaves_nothing() {
    for depth in [1, 2, 3] {
        ended_at("moments::in_mid_turn", |_, suite| {
            let mut generation = BTreeSet::new();
            until("a process of the jail", PATIENCE, || {
                generation = BTreeSet::from_iter(children(pid(suite)));
                for _ in 1..depth {
                    generation = generation.iter().flat_map(|process| children(process.pid)).collect();
                }
                !generation.is_empty()
            });
        });
    }
}

pub(crate) fn a_suite_that_ends_in_mid_turn_leaves_nothing() {
    ended_at("moments::in_mid_turn", |place, _| until("the turn", PATIENCE, || place.mark().exists()));
}

pub(crate) fn a_suite_that_ends_while_evidence_is_taken_leaves_nothing() {
    ended_at("moments::in_mid_finish", |place, _| until("the end of a run", PATIENCE, || place.mark().exists()));
}

pub(crate) fn a_suite_whose_keepers_are_killed_loses_two_runs_and_no_more() {
    let place = Place::new();
    let suite = start(suite(&place, &["crowd"]).env("REDROOM_PARALLEL", "2"));
    let at_work = |process: &Process| process.arguments().starts_with(&["sleep".to_owned(), "600".to_owned()]);
    until("two turns", PATIENCE, || descendants(pid(&suite)).iter().filter(|it| at_work(it)).count() == 2);
    let kin = descendants(pid(&suite));
    let mut keepers = Vec::new();
    until("two keepers", PATIENCE, || {
        keepers = children(pid(&suite));
        keepers.len() == 2
    });
    let killed = Instant::now();
    keepers.iter().for_each(Process::kill);
    let ended = suite.end(PATIENCE);
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    ended.expect(2, &["2 passed; 2 failed", "_lost"]);
    until("no process left", SOON, || !kin.iter().any(Process::lives));
}
