//! What the compiler says of an attack: one mistake a file in `ui/fail`, what must compile without a warning in `ui/pass`.
//!
//! The wording is that of the pinned toolchain. After a change: look, then run with `TRYBUILD=overwrite`.

#[test]
fn mistakes_are_told_at_their_place() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
