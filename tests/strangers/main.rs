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
#[path = "../session/mod.rs"]
mod session;

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

/// A trial with these tools and a redroom of its own with two slots.
fn trial<F>(name: &'static str, tools: &'static [&'static str], body: fn(Arc<Redroom>) -> F) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || {
        let tools: Result<Vec<Tool>, String> = tools.iter().map(|tool| Tool::find(tool)).collect();
        match tools {
            Ok(tools) => session::played(Suite::new().agent(Stranger::new(tools)).parallel(2), body),
            Err(why) if session::requires(|_| true) => Err(Failed::from(why)),
            Err(why) => Ok(Completion::ignored_with(why)),
        }
    })
}
