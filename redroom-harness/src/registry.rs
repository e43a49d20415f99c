//! The attacks that are linked into this executable: each `#[redroom::attack]` leaves a [`Registration`], or one for each of its
//! cases.
//!
//! Nothing here runs an attack or filters; it is the list, in an order that does not change between builds.

use std::fmt;
use std::pin::Pin;

use crate::error::{Error, Result};
use crate::options::RunOptions;
use crate::run::Run;

/// One attack. Written by the attribute only: constants and plain functions, so that it can live in a static.
#[derive(Debug)]
#[doc(hidden)]
pub struct Registration {
    /// Crate, modules, function and case: `module_path!()` and the names of the two.
    pub name: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// From `#[ignore]`.
    pub ignore: Ignore,
    /// From `#[should_panic]`.
    pub should_panic: ShouldPanic,
    /// Words by which it is chosen, sorted.
    pub tags: &'static [&'static str],
    /// What the attribute and the case say; made anew for every run.
    pub prepare: fn() -> Prepared,
}

/// An attack that is about to run.
#[doc(hidden)]
pub struct Prepared {
    /// What the attribute's arguments say.
    pub options: RunOptions,
    /// The function, with the values of its case.
    pub body: Box<dyn FnOnce(Run) -> BodyFuture>,
}

/// An attack's body under way; an error is what the test reports. Need not be `Send`.
pub type BodyFuture = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Whether an attack is passed over unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Ignore {
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It is, and here is why.
    Because(&'static str),
}

/// Whether an attack passes by panicking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum ShouldPanic {
    /// It does not.
    No,
    /// It does, whatever the message.
    Yes,
    /// It does, with a message that holds this text.
    With(&'static str),
}

inventory::collect!(Registration);

impl Registration {
    /// The test's name, as for `#[test]`: modules, function and case, without the crate.
    pub fn test_name(&self) -> &'static str {
        self.name.split_once("::").map_or(self.name, |(_, name)| name)
    }

    /// Whether it is passed over unless it is asked for.
    pub(crate) fn is_ignored(&self) -> bool {
        self.ignore != Ignore::No
    }
}

/// What an attack's function may return.
#[diagnostic::on_unimplemented(
    message = "an attack cannot return `{Self}`",
    label = "must be `()` or `Result<(), E>` with an `E` that can be displayed",
    note = "`redroom::Result<()>` is the usual choice"
)]
#[doc(hidden)]
pub trait Outcome {
    /// The error's text.
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Every attack that is linked in, sorted by test name.
///
/// # Errors
/// `no_attacks` when there is none, `duplicate_attack` when two have the same name.
pub fn attacks() -> Result<Vec<&'static Registration>> {
    in_order(inventory::iter::<Registration>)
}

fn in_order(found: impl IntoIterator<Item = &'static Registration>) -> Result<Vec<&'static Registration>> {
    let mut attacks: Vec<_> = found.into_iter().collect();
    if attacks.is_empty() {
        return Err(Error::redroom(
            "no_attacks",
            "no attack is linked into this test: write a `#[redroom::attack]` function, without `#[test]` above it, which hides it; \
             and where the attacks are in a library crate, say `use my_attacks as _;` in the test, for an unnamed crate is not linked",
        ));
    }
    attacks.sort_by_key(|attack| (attack.test_name(), attack.name, attack.file, attack.line));
    let twice: String = attacks
        .windows(2)
        .filter(|pair| pair[0].test_name() == pair[1].test_name())
        .map(|pair| {
            let [a, b] = [pair[0], pair[1]];
            format!("\n- `{}` at {}:{} and at {}:{}", a.test_name(), a.file, a.line, b.file, b.line)
        })
        .collect();
    if twice.is_empty() {
        Ok(attacks)
    } else {
        Err(Error::redroom("duplicate_attack", format!("every attack needs a name of its own; rename one of:{twice}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attack(name: &'static str, line: u32) -> &'static Registration {
        Box::leak(Box::new(Registration {
            name,
            file: "tests/attacks.rs",
            line,
            ignore: Ignore::No,
            should_panic: ShouldPanic::No,
            tags: &[],
            prepare: || Prepared {
                options: RunOptions::new(),
                body: Box::new(|_| Box::pin(async { ().into_result() })),
            },
        }))
    }

    #[test]
    fn attacks_are_sorted_by_their_name_without_the_crate() {
        let sorted = in_order([attack("a::z", 1), attack("b::web::x", 2), attack("c::web::a", 3)]).unwrap();
        assert_eq!(sorted.iter().map(|a| a.test_name()).collect::<Vec<_>>(), ["web::a", "web::x", "z"]);
    }

    #[test]
    fn two_attacks_of_one_name_are_refused_with_both_places() {
        let error = in_order([attack("one::x", 7), attack("one::y", 8), attack("two::x", 9)]).unwrap_err();
        assert_eq!(error.code(), "duplicate_attack");
        assert!(error.detail().contains("`x` at tests/attacks.rs:7 and at tests/attacks.rs:9"), "{error}");
        assert!(!error.detail().contains("`y`"), "{error}");
    }

    #[test]
    fn an_empty_registry_says_how_to_link_a_crate() {
        let error = in_order([]).unwrap_err();
        assert_eq!(error.code(), "no_attacks");
        assert!(
            ["use my_attacks as _;", "without `#[test]` above it"].iter().all(|told| error.detail().contains(told)),
            "{error}"
        );
    }

    #[test]
    fn an_error_of_the_body_is_told_in_its_own_words() {
        assert_eq!(Err::<(), _>("lost").into_result(), Err("lost".to_owned()));
    }
}
