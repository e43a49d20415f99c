//! Panics of attacks: their message, place and trace, for the failing attack's own story.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::sync::Once;

use crate::evidence::{Redactor, held};
use crate::visible::visible;

thread_local! {
    /// Whether this thread plays an attack: its panics are told with the attack, and only there.
    static PLAYING: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic of this thread happened. An attack's body is polled on the thread that plays it.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

struct Place {
    at: String,
    trace: Option<Trace>,
}

struct Trace {
    text: String,
    /// Everything of it is to be told.
    whole: bool,
}

/// What a caught panic said and where, and how it came to that, if `RUST_BACKTRACE` asks for it.
pub(super) struct Told {
    pub(super) message: String,
    pub(super) trace: Option<String>,
}

/// Notes the place of every panic. Those of attacks are told later; for others is done what was done before, but a message that
/// holds what nobody may read, or what an agent said to the terminal, is printed here, without it and without a backtrace.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        let whole = std::env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted == "full");
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let at =
                info.location().map_or_else(|| "<unknown>".to_owned(), |at| format!("{}:{}", at.file(), at.line()));
            let at = held::everything().text(at);
            if PLAYING.get() {
                let trace = Backtrace::capture();
                let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
                let trace = trace.map(|trace| Trace { text: trace, whole });
                PLACE.with(|last| *last.borrow_mut() = Some(Place { at, trace }));
                return;
            }
            match text(info.payload()).and_then(|text| readable(text, &held::everything())) {
                Some(readable) => {
                    let thread = std::thread::current();
                    let thread = thread.name().unwrap_or("<unnamed>");
                    let _ = writeln!(std::io::stderr(), "\nthread '{thread}' panicked at {at}:\n{readable}");
                }
                None => before(info),
            }
        }));
    });
}

/// Plays an attack: a panic in it is caught by whoever polls its body, and told by [`told`].
pub(super) fn playing<T>(play: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            PLAYING.set(false);
        }
    }
    PLAYING.set(true);
    let _end = End;
    play()
}

/// What a caught panic of this thread's attack said, and where. `file` and `line` are those of its attribute.
pub(super) fn told(payload: &(dyn Any + Send), file: &str, line: u32) -> Told {
    let text = text(payload).unwrap_or("a panic without a message");
    match PLACE.with(|last| last.borrow_mut().take()) {
        Some(Place { at, trace }) => {
            let attribute = format!("{file}:{line}:");
            let trace = trace.map(|Trace { text, whole }| if whole { text } else { own(&text, &attribute) });
            Told { message: format!("{text}\n  at {at}"), trace }
        }
        None => Told { message: text.to_owned(), trace: None },
    }
}

/// The frames of a trace that are the test's own code, numbered anew: not what a panic does, nor what stands between the test
/// and the runner. `attribute` is where the attribute stands, whose expansion calls the function.
fn own(trace: &str, attribute: &str) -> String {
    const FOREIGN: [&str; 5] = ["core::", "std::", "alloc::", "redroom_harness::", "rust_begin_unwind"];
    const OF_THE_RUNNER: &str = "AssertUnwindSafe";
    let mut frames: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in trace.lines() {
        match line.trim_start().split_once(": ") {
            Some((number, name)) if number.parse::<u32>().is_ok() => frames.push((name, Vec::new())),
            // Where a frame stands is told below it.
            _ => {
                if let Some((_, places)) = frames.last_mut() {
                    places.push(line);
                }
            }
        }
    }
    let is_own = |(name, places): &(&str, Vec<&str>)| {
        let name = name.trim_start_matches('<');
        let of_the_toolchain = |place: &&str| place.contains("/rustc/") || place.contains("/lib/rustlib/src/");
        let expanded = |place: &&str| place.contains(attribute);
        !FOREIGN.iter().any(|part| name.starts_with(part))
            && !places.iter().any(|place| of_the_toolchain(place) || expanded(place))
    };
    let called = frames.into_iter().take_while(|(name, _)| !name.contains(OF_THE_RUNNER));
    let mut told = String::new();
    for (number, (name, places)) in called.filter(is_own).enumerate() {
        told.push_str(&format!("{number:>4}: {name}\n"));
        places.iter().for_each(|place| told.push_str(&format!("{place}\n")));
    }
    if told.is_empty() { trace.to_owned() } else { told }
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
    fn a_panic_of_an_attack_is_told_with_its_place() {
        install();
        let payload = playing(|| std::panic::catch_unwind(|| panic!("number {}", 7))).unwrap_err();
        let told = told(&*payload, file!(), 1).message;
        assert!(told.starts_with("number 7\n  at ") && told.contains("panics.rs:"), "{told}");
    }

    #[test]
    fn of_a_trace_the_tests_own_frames_are_told() {
        let trace = "   0: redroom_harness::runner::panics::install::{{closure}}
             at ./redroom-harness/src/runner/panics.rs:40:29
   1: core::panicking::panic_fmt
   2: panic_display<alloc::borrow::Cow<str>>
             at /rustc/59807616e1fa/library/core/src/panicking.rs:259:5
   3: redroom_harness::evidence::result::RunResult::assert_no_leaks
             at ./result.rs:245:13
   4: helper
             at ./tests/attacks.rs:12:5
   5: {async_fn#0}
             at ./tests/attacks.rs:49:9
   6: {async_block#0}
             at ./tests/attacks.rs:46:5
   7: poll<x>
             at /rustc/59807616e1fa/library/core/src/future/future.rs:133:9
   8: <core::panic::unwind_safe::AssertUnwindSafe<F> as core::future::future::Future>::poll
   9: main
             at ./tests/attacks.rs:99:1";
        let expected = "   0: helper
             at ./tests/attacks.rs:12:5
   1: {async_fn#0}
             at ./tests/attacks.rs:49:9
";
        assert_eq!(own(trace, "tests/attacks.rs:46:"), expected);
        assert_eq!(own("no frames", "tests/attacks.rs:46:"), "no frames");
    }

    #[test]
    fn a_message_is_printed_as_it_is_unless_it_holds_something() {
        let redactor = Redactor::new(["sk-held-4473"]);
        assert_eq!(readable("it is sk-held-4473", &redactor).as_deref(), Some("it is [redacted]"));
        assert_eq!(readable("it is nothing", &redactor), None);
        assert_eq!(readable("\x1b[32mok\x1b[0m", &redactor).as_deref(), Some("\\x1b[32mok\\x1b[0m"));
    }
}
