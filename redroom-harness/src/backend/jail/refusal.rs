//! Why a jail cannot be had here, and what can be done.

use crate::error::Error;

/// Explains why a step was refused.
pub(super) fn explain(step: &str, errno: i32) -> Error {
    let error = std::io::Error::from_raw_os_error(errno);
    Error::backend("jail_unavailable", format!("{step}: {error}"))
}

/// The same for a step that a helper reports, in its own words where it has any.
pub(super) fn refused(refused: &super::sys::Refused) -> Error {
    if refused.errno == 0 {
        return Error::backend("jail_unavailable", format!("{}: {}", refused.step, refused.detail));
    }
    let error = explain(&refused.step, refused.errno);
    match refused.detail.as_str() {
        "" => error,
        words => error.map_detail(|detail| format!("{detail} ({words})")),
    }
}
