//! What is left when a session ends, however it ends.

use std::process::ExitCode;

use crate::Body;

pub(crate) const VICTIM_ARGUMENT: &str = "__trial-victim";

pub(crate) const TRIALS: &[(&str, Body)] = &[];

/// A session that is killed in the middle.
pub(crate) fn victim() -> ExitCode {
    ExitCode::FAILURE
}
