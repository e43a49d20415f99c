//! Which trials there are, and what else this executable is started as by them.

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::fixture::Fixture;
use crate::{commands, crowds, deaths, lifetime, places, refused};

pub(crate) type Body = fn(&Fixture) -> Result<(), Failed>;

pub(crate) fn play() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(lifetime::VICTIM_ARGUMENT) => return lifetime::victim(),
        Some(crowds::ALONE_ARGUMENT) => return crowds::alone(),
        Some(deaths::KILLED_ARGUMENT) => return deaths::killed(),
        _ => {}
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
