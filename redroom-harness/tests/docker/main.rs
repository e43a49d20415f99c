//! The docker backend against a real engine. Without one the trials are ignored, with the reason; `REDROOM_REQUIRE=docker` makes
//! them fail instead.
//!
//! The executable is also the sidecar that its slots run: an echo, for what a real one does is tested elsewhere.

mod collecting;
#[path = "../sandboxes/mod.rs"]
mod sandboxes;

mod commands;
mod fixture;
mod lifetime;
mod placing;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use redroom_harness::backend::docker::SIDECAR_ARGUMENT;

use crate::fixture::Fixture;

type Body = fn(&Fixture) -> Result<(), Failed>;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(SIDECAR_ARGUMENT) => return fixture::echo(),
        Some(lifetime::VICTIM_ARGUMENT) => return lifetime::victim(),
        _ => {}
    }
    let groups: [&[(&str, Body)]; 4] = [placing::TRIALS, commands::TRIALS, collecting::TRIALS, lifetime::TRIALS];
    let trials = groups.into_iter().flatten().map(|(name, body)| {
        Trial::ignorable_test(*name, move || match Fixture::shared() {
            Ok(fixture) => body(fixture).map(|()| Completion::Completed),
            Err(error)
                if env::var("REDROOM_REQUIRE").is_ok_and(|required| required.split(',').any(|it| it == "docker")) =>
            {
                Err(Failed::from(error.to_string()))
            }
            Err(error) => Ok(Completion::ignored_with(error.to_string())),
        })
    });
    let mut conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    if let Err(left) = fixture::tidy() {
        eprintln!("{left}");
        conclusion.num_failed += 1;
    }
    conclusion.exit_code()
}
