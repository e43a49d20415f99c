//! What is set or planted wrongly: one clear error, and nothing left behind.

use crate::fixture;
use crate::suite::{PATIENCE, Place, start};

/// Refused before anything is started.
#[track_caller]
fn refused(place: &Place, suite: &mut std::process::Command, words: &[&str]) {
    start(suite).end(PATIENCE).expect(2, words);
    assert!(!place.path("run/redroom").exists() && !place.path("out").exists(), "something was started");
}

pub(crate) fn parallel_outside_its_range_is_refused_wherever_it_stands() {
    let place = Place::new();
    for number in ["0", "246"] {
        let words = ["invalid_parallel", number, "from 1 to 245"];
        refused(&place, place.suite(&["next"]).env("REDROOM_PARALLEL", number), &words);
        refused(&place, place.suite(&["next"]).env(fixture::PARALLEL, number), &words);
        refused(&place, &mut place.suite(&["next", "--parallel", number]), &words);
        std::fs::write(place.path("redroom.toml"), format!("parallel = {number}\n")).unwrap();
        refused(&place, &mut place.suite(&["next"]), &words);
        std::fs::remove_file(place.path("redroom.toml")).unwrap();
    }
    refused(&place, place.suite(&["next"]).env("REDROOM_PARALLEL", "many"), &["invalid_parallel", "many"]);
}

pub(crate) fn a_broken_settings_file_is_refused_with_the_nearest_key() {
    let place = Place::new();
    for (text, words) in [
        ("paralel = 2\n", &["invalid_config", "redroom.toml", "`paralel`", "`parallel`"][..]),
        ("[limits]\nmemroy = \"1g\"\n", &["invalid_config", "`memory`"]),
        ("parallel = \n", &["invalid_config", "redroom.toml"]),
        ("backend = \"podman\"\n", &["invalid_backend", "podman", "docker"]),
        ("fake_domain = \"test\"\n", &["invalid_fake_domain"]),
    ] {
        std::fs::write(place.path("redroom.toml"), text).unwrap();
        refused(&place, &mut place.suite(&["next"]), words);
    }
}

pub(crate) fn a_report_that_could_not_be_written_is_refused_before_anything_starts() {
    let place = Place::new();
    let words = ["report_unwritable", "name another file"];
    refused(&place, place.suite(&["next"]).env("REDROOM_JUNIT", place.path("run")), &words);
    refused(&place, place.suite(&["next"]).env("REDROOM_JUNIT", "/proc/nowhere/junit.xml"), &words);
}

pub(crate) fn an_unknown_flag_is_refused() {
    let place = Place::new();
    let ended = place.run(&["--no-such-flag"]);
    ended.expect(101, &["--no-such-flag"]);
    // No attack has such a name.
    assert!(!ended.err.contains("-- --no-such-flag"), "{ended:?}");
    assert!(ended.out.is_empty() && !place.path("run/redroom").exists(), "{ended:?}");
}

pub(crate) fn a_variable_that_means_nothing_is_refused_with_the_nearest_one() {
    let place = Place::new();
    let misspelt = ["invalid_backend", "REDROOM_BACKEND", "dcoker", "did you mean \"docker\"?"];
    refused(&place, place.suite(&["next"]).env("REDROOM_BACKEND", "dcoker"), &misspelt);
    let words = ["invalid_environment", "REDROOM_PARALEL", "did you mean REDROOM_PARALLEL?"];
    refused(&place, place.suite(&["next"]).env("REDROOM_PARALEL", "2"), &words);
    refused(
        &place,
        place.suite(&["next"]).env("REDROOM_COLOUR", "red"),
        &["REDROOM_COLOUR", "there are REDROOM_BACKEND"],
    );
}

pub(crate) fn what_is_planted_wrongly_is_one_clear_error_and_leaves_nothing() {
    let place = Place::new();
    let ended = place.run(&["mistakes", "--skip", "needs"]);
    ended.expect(
        101,
        &[
            "6 failed",
            "invalid_path",
            "../outside",
            "invalid_page",
            "elsewhere.example",
            "invalid_secret",
            "secret_not_planted",
            "the fixture is gone",
            "no_turn",
            "run.send",
        ],
    );
    assert!(!ended.out.contains("\"short\""), "{ended:?}");
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn without_npm_the_agent_is_not_fetched_and_the_error_says_so() {
    let place = Place::new();
    let mut suite = place.suite(&["needs_npm"]);
    suite.env("PATH", place.path("bin")).env("XDG_CACHE_HOME", place.path("cache"));
    start(&mut suite).end(PATIENCE).expect(2, &["npm", "REDROOM_CLAUDE_CODE"]);
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn without_model_access_nothing_is_fetched_or_started_and_the_error_says_so_first() {
    let place = Place::new();
    let mut suite = place.suite(&["needs_a_model"]);
    suite.env_remove(fixture::PROVIDER).env("PATH", place.path("bin")).env("XDG_CACHE_HOME", place.path("cache"));
    let ended = start(&mut suite).end(PATIENCE);
    ended.expect(2, &["missing_model_access", "ANTHROPIC_API_KEY", "model_proxy", "Script"]);
    let (_, told) = ended.out.split_once("needs_a_model ----").expect("the attack's story");
    assert!(told.trim_start().starts_with("missing_model_access"), "{told}");
    assert!(!ended.out.contains("npm") && !place.path("cache").exists(), "{ended:?}");
    assert!(place.containers().is_empty(), "{:?}", place.containers());
}

pub(crate) fn a_profile_is_chosen_by_flag_or_variable_and_refused_where_there_is_none() {
    let place = Place::new();
    // What the environment lacks is missed by whoever uses it alone.
    let settings = "[profile.ci.tool_call_check]\nurl = \"http://localhost:1\"\nheaders = { a = \"$NOBODY_SETS_THIS\" }\n\
                    [profile.nightly]\nparallel = 2\n";
    std::fs::write(place.path("redroom.toml"), settings).unwrap();
    let nothing = |arguments: &[&str]| {
        let mut suite = place.suite(arguments);
        suite.arg("no_attack_is_called_this");
        suite
    };
    let missed = ["invalid_config", "redroom.toml:3:17: `profile.ci.tool_call_check.headers.a` is $NOBODY_SETS_THIS"];
    start(&mut nothing(&[])).end(PATIENCE).expect(0, &["0 passed"]);
    refused(&place, &mut nothing(&["--profile", "ci"]), &missed);
    refused(&place, nothing(&[]).env("REDROOM_PROFILE", "ci"), &missed);
    start(nothing(&["--profile", "nightly"]).env("REDROOM_PROFILE", "ci")).end(PATIENCE).expect(0, &["0 passed"]);
    let words = ["unknown_profile", "REDROOM_PROFILE asks for the profile \"nihgtly\"", "did you mean \"nightly\"?"];
    refused(&place, nothing(&[]).env("REDROOM_PROFILE", "nihgtly"), &words);
    std::fs::remove_file(place.path("redroom.toml")).unwrap();
    refused(&place, &mut nothing(&["--profile", "ci"]), &["unknown_profile", "there is no settings file at"]);
}
