//! Trials named as `#[test]` would name them, and what each needs that a machine may lack.

use libtest_mimic::{Completion, Failed, Trial};

/// Trials of modules, each made by a function that takes its name and its test.
macro_rules! trials {
    ($make:ident: $($module:ident::{$($name:ident),+ $(,)?}),+ $(,)?) => {
        [$($($make(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),+),+]
    };
}

/// What may not be there.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    pub(crate) is_there: fn() -> bool,
    /// What `REDROOM_REQUIRE` calls it; a tool has no name there, and is required by whatever stands in it.
    pub(crate) required_as: Option<&'static str>,
    /// What is said where it is not there.
    pub(crate) otherwise: &'static str,
}

pub(crate) fn plain(name: &'static str, test: fn()) -> Trial {
    needing(name, &[], test)
}

/// A trial that is ignored where something is missing that it needs, with the reason, and fails where that is required.
pub(crate) fn needing(name: &'static str, needs: &'static [Need], test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        let Some(missing) = needs.iter().find(|need| !(need.is_there)()) else {
            test();
            return Ok(Completion::Completed);
        };
        let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
        let mut required = required.split(',').filter(|word| !word.is_empty());
        match required.any(|word| missing.required_as.is_none_or(|name| name == word)) {
            true => Err(Failed::from(missing.otherwise)),
            false => Ok(Completion::ignored_with(missing.otherwise)),
        }
    })
}
