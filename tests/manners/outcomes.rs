//! Verdicts and exit codes, as libtest has them.

use std::time::Duration;

use crate::suite::Place;

pub(crate) fn outcomes_and_exit_codes_are_those_of_libtest() {
    let place = Place::new();
    let ended =
        place.run(&["outcomes", "--skip", "leaves", "--skip", "tells", "--skip", "lets", "--test-threads", "2"]);
    ended.expect(
        101,
        &[
            "2 passed; 3 failed; 1 ignored",
            "this is why",
            "tests/manners/fixture.rs:",
            "that is why",
            "did not contain the expected text",
            "evidence: ",
        ],
    );
    assert!(place.containers().is_empty(), "{:?}", place.containers());
    place.run(&["fixture::outcomes::passes", "--exact"]).expect(0, &["1 passed; 0 failed"]);
}

pub(crate) fn a_suite_that_has_ended_gives_the_next_nothing_to_sweep() {
    let place = Place::new();
    place.run(&["fixture::outcomes::passes", "--exact"]).expect(0, &["1 passed"]);
    let left = std::fs::read_dir(place.path("run/redroom/sessions")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["id"]);
}

pub(crate) fn ignored_attacks_run_when_they_are_asked_for() {
    let place = Place::new();
    place.run(&["outcomes", "--ignored"]).expect(0, &["1 passed; 0 failed; 0 ignored"]);
    place.run(&["outcomes::ignored", "--include-ignored"]).expect(0, &["1 passed; 0 failed; 0 ignored"]);
}

pub(crate) fn a_filter_that_matches_nothing_starts_nothing() {
    let place = Place::new();
    place.run(&["no such attack"]).expect(0, &["running 0 tests"]);
    assert!(!place.path("run/redroom").exists() && !place.path("out").exists());
}

pub(crate) fn a_turn_that_is_left_behind_is_cut_short() {
    let place = Place::new();
    let ended = place.run(&["leaves_a_turn_behind"]);
    ended.expect(101, &["turn_abandoned", ".await"]);
    assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
}

pub(crate) fn a_leak_that_a_test_lets_pass_is_told() {
    let place = Place::new();
    let ended = place.run(&["lets_a_leak_pass"]);
    ended.expect(0, &["1 passed"]);
    let notice =
        ended.err.lines().find(|line| line.contains("passed, although")).unwrap_or_else(|| panic!("{ended:?}"));
    assert!(notice.contains("fixture::outcomes::lets_a_leak_pass"), "{notice}");
    assert!(notice.contains("token over http; token over https"), "{notice}");
    assert!(notice.contains("evidence: ") && notice.contains("/out/"), "{notice}");
    assert!(!ended.err.contains("PLATYPUS"), "{ended:?}");
    let quiet = place.run(&["fixture::outcomes::passes", "--exact"]);
    assert!(!quiet.err.contains("although"), "{quiet:?}");
}

pub(crate) fn a_guard_that_nothing_asks_is_told_once() {
    let place = Place::new();
    let ended = place.run(&["guarded"]);
    ended.expect(0, &["3 passed"]);
    assert_eq!(ended.err.matches("a guard is set, and nothing makes shell ask it").count(), 1, "{ended:?}");
    let quiet = place.run(&["guarded::by_nobody"]);
    assert!(!quiet.err.contains("a guard is set"), "{quiet:?}");
}

pub(crate) fn what_an_attack_may_have_overlooked_is_told() {
    let place = Place::new();
    std::fs::write(place.path("redroom.toml"), "[profile.ci]\nparallel = 1\n").unwrap();
    let ended = place.run(&["overlooked", "--profile", "ci"]);
    ended.expect(0, &["2 passed"]);
    let lines = |words: &str| ended.err.lines().filter(|line| line.contains(words)).collect::<Vec<_>>();
    assert_eq!(lines("; profile ci; evidence in ").len(), 1, "{ended:?}");
    let unasked = lines("passed without a look at its result");
    assert!(unasked.len() == 1 && unasked[0].contains("fixture::overlooked::its_result"), "{ended:?}");
    let unplayed = lines("its `model` plays nothing, for shell asks no model");
    assert!(unplayed.len() == 1 && unplayed[0].contains("that_nobody_asks_its_model"), "{ended:?}");
}
