//! Sessions of their own, without the attribute: what depends on a suite's settings, or on two runs at once.
//!
//! Without a backend its trials are ignored, with the reason; `REDROOM_REQUIRE=docker,jail` makes them fail instead.

#[path = "../asking/mod.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod asking;
#[path = "../beside/mod.rs"]
mod beside;
#[path = "../both/mod.rs"]
mod both;
#[path = "../session/mod.rs"]
mod session;

mod catch_all;
mod crowds;
mod floods;
mod given_up;
mod settings;
mod setups;
mod side_by_side;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use redroom::{Redroom, Run, RunOptions, Shell, Suite};

fn main() -> ExitCode {
    // A sidecar and a jail's processes are this executable too.
    redroom::init();
    settings::with_provider().unwrap_or_else(|| both::play(play))
}

fn play() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each trial takes as many slots as it needs: one after the other.
    arguments.test_threads = Some(1);
    let trials = [
        catch_all::trials(),
        crowds::trials(),
        floods::trials(),
        given_up::trials(),
        settings::trials(),
        setups::trials(),
        side_by_side::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A trial with a redroom of its own.
fn trial<F>(name: &'static str, suite: fn() -> Suite, body: fn(Arc<Redroom>) -> F) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || session::played(suite().agent(Shell::new()), body))
}

/// A run that has something to lose, and a page that says whose it is.
async fn start(redroom: &Redroom, name: &str) -> redroom::Result<Run> {
    let options = RunOptions::new()
        .name(name)
        .workspace([("token", "${secrets.token}")])
        .pages([("http://page.redroom.test/", format!("page of {name}"))])
        .secrets([("token", format!("{name}-PLATYPUS-7731"))]);
    redroom.start_run(options).await
}
