//! The real Claude Code end to end, with a script in the model's place: what it does is done by its own code, whatever the
//! script asks for.

mod guards;
mod hooks;
mod inconclusive;
mod leaks;
mod tools;
mod upstream;

redroom::main!(redroom::Suite::new().ignored_without_backend());
