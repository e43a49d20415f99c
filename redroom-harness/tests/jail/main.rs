//! The jail backend alone, against this machine's kernel. Where that refuses the trials are ignored, with the reason;
//! `REDROOM_REQUIRE=jail` makes them fail instead.

#[path = "../sandboxes/mod.rs"]
mod sandboxes;

mod commands;
mod crowds;
mod deaths;
mod fixture;
mod holdings;
mod lifetime;
mod places;
mod refused;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::fixture::Fixture;

type Body = fn(&Fixture) -> Result<(), Failed>;

fn main() -> ExitCode {
    redroom_harness::init();
    if env::args().nth(1).as_deref() == Some(lifetime::VICTIM_ARGUMENT) {
        return lifetime::victim();
    }
    if env::args().nth(1).as_deref() == Some(crowds::ALONE_ARGUMENT) {
        return crowds::alone();
    }
    if env::args().nth(1).as_deref() == Some(deaths::KILLED_ARGUMENT) {
        return deaths::killed();
    }
    let groups: [&[(&str, Body)]; 6] =
        [places::TRIALS, commands::TRIALS, refused::TRIALS, lifetime::TRIALS, deaths::TRIALS, crowds::TRIALS];
    let trials = groups.into_iter().flatten().map(trial);
    let measurements = crowds::MEASUREMENTS.iter().map(|one| trial(one).with_ignored_flag(true));
    libtest_mimic::run(&Arguments::from_args(), trials.chain(measurements).collect()).exit_code()
}

fn trial((name, body): &'static (&'static str, Body)) -> Trial {
    Trial::ignorable_test(*name, move || match Fixture::shared() {
        Ok(fixture) => body(fixture).map(|()| Completion::Completed),
        Err(error) if env::var("REDROOM_REQUIRE").is_ok_and(|required| required.split(',').any(|it| it == "jail")) => {
            Err(Failed::from(error.to_string()))
        }
        Err(error) => Ok(Completion::ignored_with(error.to_string())),
    })
}
