//! What the attribute writes makes no lint speak in the user's crate, whatever that crate denies.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, unreachable_pub, unused_qualifications, rust_2018_idioms, let_underscore_drop)]
#![deny(clippy::all, clippy::pedantic)]

use redroom::Run;

#[redroom::attack(workspace = { "a": "b" })]
#[ignore = "not now"]
async fn ignored(_run: Run) {}

#[redroom::attack]
#[should_panic(expected = "leaked")]
async fn panicking(_run: Run) {
    panic!("leaked");
}

#[redroom::attack]
#[cfg(any())]
async fn configured_out(_run: Run) {}

fn main() {}
