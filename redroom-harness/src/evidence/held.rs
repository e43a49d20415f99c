//! Everything that is held in this process: for what belongs to no run, or may have come from any.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use super::redactor::Redactor;

struct Everything {
    values: BTreeSet<String>,
    redactor: Redactor,
}

static EVERYTHING: RwLock<Everything> = RwLock::new(Everything { values: BTreeSet::new(), redactor: Redactor::idle() });

/// From now on these values are held, until the process ends.
pub(crate) fn hold(values: &[String]) {
    let known = |everything: &Everything| values.iter().all(|value| everything.values.contains(value));
    if known(&EVERYTHING.read().unwrap_or_else(PoisonError::into_inner)) {
        return;
    }
    let mut everything = EVERYTHING.write().unwrap_or_else(PoisonError::into_inner);
    everything.values.extend(values.iter().cloned());
    everything.redactor = Redactor::new(everything.values.iter().map(String::as_str));
}

/// Takes out whatever is held by now.
pub(crate) fn everything() -> Redactor {
    EVERYTHING.read().unwrap_or_else(PoisonError::into_inner).redactor.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_once_is_held_until_the_end() {
        hold(&["held-first-4471".to_owned()]);
        hold(&["held-second-4472".to_owned()]);
        assert_eq!(everything().text("held-second-4472 held-first-4471".to_owned()), "[redacted] [redacted]");
    }
}
