//! The real Claude Code end to end, with a script in the model's place: what it does is done by its own code, whatever the
//! script asks for.

#[path = "../asking/mod.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod asking;
#[path = "../both/mod.rs"]
mod both;

mod asks;
mod guards;
mod hooks;
mod inconclusive;
mod leaks;
mod tools;
mod turns;
mod upstream;

fn main() -> std::process::ExitCode {
    both::play(suite::play)
}

mod suite {
    redroom::main!(redroom::Suite::new().ignored_without_backend());

    pub(crate) fn play() -> std::process::ExitCode {
        main()
    }
}
