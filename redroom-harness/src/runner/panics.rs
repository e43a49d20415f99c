//! Panics of attacks: their message and place, for the failing attack's own story.

use std::any::Any;
use std::cell::RefCell;
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::sync::Once;

use crate::evidence::{Redactor, held};
use crate::visible::visible;

thread_local! {
    /// Where the last panic of this thread happened. A trial's body is polled on the trial's own thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes the place of every panic, then does what was done before. A message that holds what nobody may read, or what an agent
/// said to the terminal, is printed here, without it and without a backtrace.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let place = info.location().map(|at| held::everything().text(format!("{}:{}", at.file(), at.line())));
            match text(info.payload()).and_then(|text| readable(text, &held::everything())) {
                Some(readable) => {
                    let thread = std::thread::current();
                    let (thread, at) = (thread.name().unwrap_or("<unnamed>"), place.as_deref().unwrap_or("<unknown>"));
                    let _ = writeln!(std::io::stderr(), "\nthread '{thread}' panicked at {at}:\n{readable}");
                }
                None => before(info),
            }
            PLACE.with(|last| *last.borrow_mut() = place);
        }));
    });
}

/// What a caught panic said, and where.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    let text = text(payload).unwrap_or("a panic without a message");
    match PLACE.with(|last| last.borrow_mut().take()) {
        Some(place) => format!("{text}\n  at {place}"),
        None => text.to_owned(),
    }
}

fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// A message that cannot be printed as it is, as it can be: without what is held, and with nothing that a terminal obeys.
fn readable(text: &str, redactor: &Redactor) -> Option<String> {
    let clean = if redactor.finds(text.as_bytes()) { redactor.text(text.to_owned()) } else { text.to_owned() };
    let clean = visible(&clean).into_owned();
    (clean != text).then_some(clean)
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

    #[test]
    fn a_message_is_printed_as_it_is_unless_it_holds_something() {
        let redactor = Redactor::new(["sk-held-4473"]);
        assert_eq!(readable("it is sk-held-4473", &redactor).as_deref(), Some("it is [redacted]"));
        assert_eq!(readable("it is nothing", &redactor), None);
        assert_eq!(readable("\x1b[32mok\x1b[0m", &redactor).as_deref(), Some("\\x1b[32mok\\x1b[0m"));
    }
}
