//! One attack, two backends, one result: the same attacks are played on Docker and in the jail, and everything that their results
//! say is compared, field by field, but for what is named in `alike`.
//!
//! Ignored with the reason where one of the two is not to be had; `REDROOM_REQUIRE` with its name makes that a failure.

mod alike;
mod attacks;
mod claude_code;
mod difference;
mod snapshots;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use redroom::{Error, Redroom, Result, Run, RunOptions, Shell, Suite};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// One row of the table.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) options: fn() -> RunOptions,
    pub(crate) body: Body,
}

/// What is done with the run.
pub(crate) enum Body {
    /// These messages are sent, one after the other.
    Messages(&'static [&'static str]),
    /// More than that; what the test itself gets to see is compared, too.
    Test(fn(Run) -> Test),
}

/// A test's own part, under way.
pub(crate) type Test = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

/// Both sessions, started once.
struct Both {
    runtime: Runtime,
    docker: Redroom,
    jail: Redroom,
}

/// Why there are not both; an engine that is not there is no failure by itself.
struct Lacking {
    backend: &'static str,
    error: Error,
}

static BOTH: OnceLock<std::result::Result<Both, Lacking>> = OnceLock::new();

fn main() -> ExitCode {
    // A sidecar and a jail's processes are this executable too.
    redroom::init();
    let mut arguments = Arguments::from_args();
    // What uses up time or memory is not to be disturbed, for it could come out another way then.
    arguments.test_threads = Some(1);
    let table = [attacks::TABLE, claude_code::TABLE].into_iter().flatten();
    let compared = table.map(|attack| Trial::ignorable_test(attack.name, || compare(attack)));
    let held = snapshots::TABLE.iter().map(|attack| Trial::ignorable_test(attack.name, || hold(attack)));
    let trials = compared.chain(held).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(Ok(both)) = BOTH.get() {
        both.runtime.block_on(async { tokio::join!(both.docker.stop(), both.jail.stop()) });
    }
    conclusion.exit_code()
}

fn start() -> std::result::Result<Both, Lacking> {
    let runtime = Runtime::new().expect("threads can be started");
    let session = |backend: &'static str| async move {
        // Each keeps its slot, and slots are the same for all that a user starts: one each.
        let suite = Suite::new().agent(Shell::new()).backend(backend).parallel(2);
        Redroom::start(suite).await.map_err(|error| Lacking { backend, error })
    };
    let (docker, jail) = runtime.block_on(async { Ok((session("docker").await?, session("jail").await?)) })?;
    Ok(Both { runtime, docker, jail })
}

/// Both sessions, or what becomes of a trial without them.
fn both() -> std::result::Result<&'static Both, std::result::Result<Completion, Failed>> {
    BOTH.get_or_init(start).as_ref().map_err(|Lacking { backend, error }| {
        let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
        match required.split(',').any(|required| required == *backend) {
            true => Err(Failed::from(format!("{backend}: {error}"))),
            false => Ok(Completion::ignored_with(format!("{backend}: {error}"))),
        }
    })
}

/// Holds an attack against its snapshot.
fn hold(attack: &'static Attack) -> std::result::Result<Completion, Failed> {
    let both = match both() {
        Ok(both) => both,
        Err(without) => return without,
    };
    match both.runtime.block_on(snapshots::hold([&both.docker, &both.jail], attack)) {
        Ok(()) => Ok(Completion::Completed),
        Err(error) if error.by() == redroom::By::Agent => Ok(Completion::ignored_with(error.to_string())),
        Err(error) => Err(Failed::from(error.to_string())),
    }
}

fn compare(attack: &'static Attack) -> std::result::Result<Completion, Failed> {
    let both = match both() {
        Ok(both) => both,
        Err(without) => return without,
    };
    let [docker, jail] = [&both.docker, &both.jail].map(|redroom| both.runtime.block_on(play(redroom, attack)));
    let (docker, jail) = match (docker, jail) {
        (Ok(docker), Ok(jail)) => (docker, jail),
        // The agent's program could not be had: on neither of them.
        (Err(docker), Err(jail)) if docker.by() == redroom::By::Agent && docker.code() == jail.code() => {
            return Ok(Completion::ignored_with(docker.to_string()));
        }
        (docker, jail) => return Err(Failed::from(format!("docker: {:?}\njail: {:?}", docker.err(), jail.err()))),
    };
    match difference::first(&docker, &jail) {
        None => Ok(Completion::Completed),
        Some(difference) => {
            keep(attack.name, &docker, &jail);
            Err(Failed::from(difference.to_string()))
        }
    }
}

/// Plays an attack to its end. All that can be compared.
async fn play(redroom: &Redroom, attack: &Attack) -> Result<Value> {
    let run = redroom.start_run((attack.options)().name(attack.name)).await?;
    let id = run.id().to_owned();
    let seen = match attack.body {
        Body::Messages(messages) => {
            let mut seen = Vec::new();
            for message in messages {
                // The turn itself stands in the result.
                seen.push(told(run.send(message).await.map(drop)));
            }
            Ok(Value::Array(seen))
        }
        Body::Test(test) => test(run.clone()).await,
    };
    let result = run.finish().await?;
    let all = json!({ "seen": seen?, "result": *result, "snapshot": result.snapshot() });
    Ok(alike::normal(all, &id))
}

/// How something ended, as a value.
pub(crate) fn told<T: serde::Serialize>(outcome: Result<T>) -> Value {
    match outcome {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error }),
    }
}

/// Both sides in full, for whoever looks into a difference.
fn keep(name: &str, docker: &Value, jail: &Value) {
    let Some(folder) = std::env::var_os("BACKENDS_OUT") else { return };
    for (backend, value) in [("docker", docker), ("jail", jail)] {
        let path = std::path::Path::new(&folder).join(format!("{}.{backend}.json", name.replace("::", ".")));
        std::fs::write(path, format!("{value:#}")).expect("a folder that can be written to");
    }
}
