//! Tools that others wrote, in the agent's hands: scanners, tunnels, slow clients, a stress test, on each backend. Only the sidecar
//! answers them, nothing gets out, and nobody else's run suffers.
//!
//! They are this machine's, from Debian's packages of the same names; a trial whose tool is not there is ignored, with the reason.
//! `REDROOM_REQUIRE` makes it fail instead, whatever it requires.

#[path = "../beside/mod.rs"]
mod beside;
#[path = "../both/mod.rs"]
mod both;
#[path = "../host/mod.rs"]
mod host;

mod outside;
mod rights;
mod scans;
mod slow;
mod stress;
mod toolbox;
mod tunnels;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use redroom::{Redroom, Suite};

use toolbox::{Stranger, Tool};

fn main() -> ExitCode {
    both::play(play)
}

fn play() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // What is measured beside another run is not to be measured beside another trial.
    arguments.test_threads = Some(1);
    let trials =
        [outside::trials(), rights::trials(), scans::trials(), slow::trials(), stress::trials(), tunnels::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

fn on_docker() -> bool {
    std::env::var("REDROOM_BACKEND").as_deref() == Ok("docker")
}

/// A trial with these tools and a redroom of its own with two slots, which is stopped whatever becomes of the trial.
fn trial<F>(name: &'static str, tools: &'static [&'static str], body: fn(Arc<Redroom>) -> F) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || {
        let tools: Result<Vec<Tool>, String> = tools.iter().map(|tool| Tool::find(tool)).collect();
        let tools = match tools {
            Ok(tools) => tools,
            Err(why) if requires(|_| true) => return Err(Failed::from(why)),
            Err(why) => return Ok(Completion::ignored_with(why)),
        };
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let suite = Suite::new().agent(Stranger::new(tools)).parallel(2);
            let redroom = match Redroom::start(suite).await {
                Ok(redroom) => Arc::new(redroom),
                Err(error) => {
                    let backend = error.code().strip_suffix("_unavailable");
                    return match backend {
                        Some(backend) if !requires(|required| required == backend) => {
                            Ok(Completion::ignored_with(error.to_string()))
                        }
                        _ => Err(Failed::from(error.to_string())),
                    };
                }
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

/// Whether something like this is required to be there.
fn requires(this: impl Fn(&str) -> bool) -> bool {
    let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
    required.split(',').filter(|required| !required.is_empty()).any(this)
}
