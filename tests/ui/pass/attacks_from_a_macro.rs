//! Attacks that a `macro_rules!` writes.

use redroom::Run;

macro_rules! attacks {
    ($($name:ident: $text:expr),*) => {$(
        #[redroom::attack(workspace = { "a": $text }, secrets = { t: "PLATYPUS-7731" })]
        async fn $name(run: Run) {
            drop(run);
        }
    )*};
}

attacks!(one: "PLATYPUS-7731", two: "${secrets.t}");

fn main() {}
