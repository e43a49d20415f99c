//! No engine, or one that is not fit.

use std::time::Duration;

use crate::engine;
use crate::fixture::LENIENT;
use crate::suite::{PATIENCE, Place, start};

const NOWHERE: (&str, &str) = ("DOCKER_HOST", "unix:///nonexistent");

pub(crate) fn without_an_engine_attacks_fail_and_say_what_to_do() {
    let place = Place::new();
    let ended =
        start(place.suite(&["moments"]).env("REDROOM_BACKEND", "docker").env(NOWHERE.0, NOWHERE.1)).end(PATIENCE);
    ended.expect(2, &["docker_unavailable", "DOCKER_HOST=unix:///nonexistent", "start Docker", "3 failed"]);
    assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
}

pub(crate) fn without_an_engine_attacks_can_be_ignored_unless_it_is_required() {
    let place = Place::new();
    let mut suite = place.suite(&["moments"]);
    suite.env("REDROOM_BACKEND", "docker").env(NOWHERE.0, NOWHERE.1).env(LENIENT, "1");
    start(&mut suite).end(PATIENCE).expect(0, &["0 failed; 3 ignored", "docker_unavailable"]);
    start(suite.env("REDROOM_REQUIRE", "docker")).end(PATIENCE).expect(2, &["3 failed", "docker_unavailable"]);
}

pub(crate) fn an_old_engine_is_refused_with_the_reason() {
    let place = Place::new();
    let socket = place.path("old.sock");
    engine::old_engine(&socket);
    let ended = start(
        place
            .suite(&["moments::next"])
            .env("REDROOM_BACKEND", "docker")
            .env("DOCKER_HOST", format!("unix://{}", socket.display())),
    );
    ended.end(PATIENCE).expect(2, &["docker_unavailable", "27.0.3", "28 or newer"]);
}
