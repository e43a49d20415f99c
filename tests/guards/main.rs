//! Guards as teams run them, and agents that do not mind them; the conformance set, done in a sandbox.
//!
//! Without a backend its trials are ignored, with the reason; `REDROOM_REQUIRE=docker,jail` makes them fail instead. Trials with real
//! frameworks need `REDROOM_TEST_GUARDS`, the python of a virtual environment with what `servers/requirements.txt` names.

#[path = "../both/mod.rs"]
mod both;
#[path = "../session/mod.rs"]
mod session;

mod defiant;
mod servers;
mod set;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
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

/// A trial with a redroom of its own.
fn trial<F>(name: &'static str, body: impl Fn(Arc<Redroom>) -> F + Send + 'static) -> Trial
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    Trial::ignorable_test(name, move || session::played(Suite::new().agent(Shell::new()).parallel(1), body))
}
