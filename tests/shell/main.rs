//! The machinery end to end, with an agent that is a shell: what a message asks for is done, whatever it is.

#[path = "../both/mod.rs"]
mod both;
#[path = "../host/mod.rs"]
mod host;

mod answers;
mod containers;
mod disguises;
mod internet;
mod isolation;
mod leftovers;
mod other_ports;
mod repository;
mod terminal;
mod trust;
mod violence;
mod workspace;

fn main() -> std::process::ExitCode {
    both::play(suite::play)
}

/// The sandbox of a docker run has an image of its own; a jail has the programs of this machine, and which user it is depends on who
/// asked for it.
fn is_docker(result: &redroom::RunResult) -> bool {
    result.backend.name.starts_with("docker")
}

/// Whether one of these commands fails in the sandbox, where that may be: in a jail, which has the programs of this machine. Says so.
async fn lacks(run: &redroom::Run, probes: &[&str]) -> redroom::Result<bool> {
    let mut lacks = false;
    for probe in probes {
        if run.exec(format!("{probe} >/dev/null 2>&1")).await?.exit_code != 0 {
            assert_ne!(std::env::var("REDROOM_BACKEND").as_deref(), Ok("docker"), "the image has it: {probe}");
            eprintln!("{}: not tried here in full, for on this machine this fails: {probe}", run.name());
            lacks = true;
        }
    }
    if lacks {
        // A run without a turn is an error.
        run.send("true").await?;
    }
    Ok(lacks)
}

mod suite {
    redroom::main!(redroom::Suite::new().agent(redroom::Shell::new()).ignored_without_backend());

    pub(crate) fn play() -> std::process::ExitCode {
        main()
    }
}
