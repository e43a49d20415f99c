//! The machinery end to end, with an agent that is a shell: what a message asks for is done, whatever it is.

mod answers;
mod containers;
mod internet;
mod isolation;
mod repository;
mod trust;
mod violence;
mod workspace;

redroom::main!(redroom::Suite::new().agent(redroom::Shell::new()).ignored_without_backend());
