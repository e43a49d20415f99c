//! Agents of a user's own end to end: what the `Agent` trait promises, and what becomes of one that has no hook, speaks another
//! API, or cannot be run at all.

#[path = "../both/mod.rs"]
mod both;
#[path = "../../examples/agents/mini.rs"]
mod mini;

mod again;
mod chat;
mod deaths;
mod first_words;
mod hookless;
mod own;
mod trial;

fn main() -> std::process::ExitCode {
    both::play(suite::play)
}

mod suite {
    redroom::main!(redroom::Suite::new().agent(crate::mini::Mini::new()).ignored_without_backend());

    pub(crate) fn play() -> std::process::ExitCode {
        main()
    }
}
