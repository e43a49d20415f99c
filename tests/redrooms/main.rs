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

use libtest_mimic::{Arguments, Completion, Failed, Trial};
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

/// A trial with a redroom of its own, which is stopped whatever becomes of the trial.
fn trial<F>(name: &'static str, suite: fn() -> Suite, body: fn(Arc<Redroom>) -> F) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let redroom = match Redroom::start(suite().agent(Shell::new())).await {
                Ok(redroom) => Arc::new(redroom),
                Err(error) if error.code().ends_with("_unavailable") && !required(error.code()) => {
                    return Ok(Completion::ignored_with(error.to_string()));
                }
                Err(error) => return Err(Failed::from(error.to_string())),
            };
            let local = tokio::task::LocalSet::new();
            let playing = local.spawn_local(body(redroom.clone()));
            let ended = local.run_until(playing).await;
            redroom.stop().await;
            match ended {
                Ok(Ok(())) => Ok(Completion::Completed),
                Ok(Err(error)) => Err(Failed::from(error.to_string())),
                Err(panicked) => Err(Failed::from(panicked.to_string())),
            }
        })
    })
}

fn required(code: &str) -> bool {
    let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
    required.split(',').any(|backend| code.strip_suffix("_unavailable") == Some(backend))
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
