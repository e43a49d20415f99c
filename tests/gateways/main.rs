//! Gateways between redroom and a model, seen from all sides: what the real Claude Code and plain clients in its sandbox ask for,
//! what the gateway gets of it and answers, and what is on record.

#[path = "../both/mod.rs"]
mod both;

mod answers;
mod gateway;
mod requests;

fn main() -> std::process::ExitCode {
    both::play(suite::play)
}

/// What a command printed.
fn text(printed: &redroom::Octets) -> String {
    String::from_utf8_lossy(&printed.0).into_owned()
}

mod suite {
    redroom::main!(redroom::Suite::new().ignored_without_backend());

    pub(crate) fn play() -> std::process::ExitCode {
        main()
    }
}
