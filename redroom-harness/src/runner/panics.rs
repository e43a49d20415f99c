//! Panics of attacks: their message and place, for the failing attack's own story.

use std::any::Any;
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    /// Where the last panic of this thread happened. A trial's body is polled on the trial's own thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes the place of every panic, then does what was done before.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
            PLACE.with(|last| *last.borrow_mut() = place);
            before(info);
        }));
    });
}

/// What a caught panic said, and where.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    match PLACE.with(|last| last.borrow_mut().take()) {
        Some(place) => format!("{text}\n  at {place}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        install();
        let payload = std::panic::catch_unwind(|| panic!("number {}", 7)).unwrap_err();
        let told = message(&*payload);
        assert!(told.starts_with("number 7\n  at ") && told.contains("panics.rs:"), "{told}");
    }
}
