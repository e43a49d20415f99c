//! Names of the user's crate that the generated code must not be led astray by.

#![allow(dead_code, non_camel_case_types)]

struct File;
struct Box;
struct Registration;
enum Result {
    Ok,
}
mod core {}
mod std {}
mod inventory {}

fn options() -> redroom::Files {
    redroom::Files::new()
}

#[redroom::attack(workspace = options())]
async fn run(_: redroom::Run) {}

#[redroom::attack(workspace = { "a": "b" })]
async fn body(_: redroom::Run) -> ::std::result::Result<(), &'static str> {
    ::std::result::Result::Ok(())
}

#[redroom::attack]
async fn r#loop(_: redroom::Run) {}

fn main() {}
