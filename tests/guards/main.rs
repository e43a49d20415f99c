//! Guards as teams run them, and agents that do not mind them; the conformance set, done in a sandbox.
//!
//! Without a backend its trials are ignored, with the reason; `REDROOM_REQUIRE=docker,jail` makes them fail instead. Trials with real
//! frameworks need `REDROOM_TEST_GUARDS`, the python of a virtual environment with what `servers/requirements.txt` names.

#[path = "../both/mod.rs"]
mod both;

mod defiant;
mod servers;
mod set;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use redroom::{Redroom, Shell, Suite};

fn main() -> ExitCode {
    both::play(play)
}

fn play() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = [defiant::trials(), servers::trials(), set::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A trial with a redroom of its own, which is stopped whatever becomes of the trial.
fn trial<F>(name: &'static str, body: impl Fn(Arc<Redroom>) -> F + Send + 'static) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let redroom = match Redroom::start(Suite::new().agent(Shell::new()).parallel(1)).await {
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
