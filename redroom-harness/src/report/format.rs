//! libtest's forms of telling: events in, text for standard output out.
//!
//! Pure. What was said in a sandbox is made visible here, and nowhere later.

mod json;
mod pretty;
mod terse;

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::record::{Outcome, TestRecord, Totals};
use crate::visible::visible;

pub(crate) use json::discovered;

/// What happens to a suite.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    SuiteBegan {
        tests: usize,
        seed: Option<u64>,
    },
    TestBegan {
        name: &'a str,
    },
    TestEnded(&'a TestRecord),
    /// Those that were run or passed over, in the order of their names.
    SuiteEnded {
        tests: &'a [TestRecord],
        totals: &'a Totals,
    },
}

/// One form of telling.
pub(crate) trait Format: Send {
    fn tell(&mut self, event: Event<'_>) -> String;
}

/// How things are told, in whatever form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) color: bool,
    /// A failure is told when it happens, not at the end.
    pub(crate) at_once: bool,
    /// Of tests that pass as much is told as of those that fail.
    pub(crate) show_output: bool,
    pub(crate) report_time: bool,
    pub(crate) times: Option<Times>,
}

/// When a test counts as slow, and when as too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) slow: Duration,
    pub(crate) too_slow: Duration,
}

impl Times {
    /// Two numbers of milliseconds: `500,2000`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (slow, too_slow) = text.split_once(',')?;
        let millis = |text: &str| text.trim().parse().ok().map(Duration::from_millis);
        let times = Times { slow: millis(slow)?, too_slow: millis(too_slow)? };
        (times.slow <= times.too_slow).then_some(times)
    }
}

pub(crate) fn pretty(manner: Manner) -> Box<dyn Format> {
    Box::new(pretty::Pretty(manner))
}

pub(crate) fn terse(manner: Manner) -> Box<dyn Format> {
    Box::new(terse::Terse::new(manner))
}

pub(crate) fn json(manner: Manner) -> Box<dyn Format> {
    Box::new(json::Json(manner))
}

/// Nothing until the end, and then one document.
pub(crate) fn document(make: impl Fn(&[TestRecord]) -> String + Send + 'static) -> Box<dyn Format> {
    struct Document<F>(F);
    impl<F: Fn(&[TestRecord]) -> String + Send> Format for Document<F> {
        fn tell(&mut self, event: Event<'_>) -> String {
            match event {
                Event::SuiteEnded { tests, .. } => (self.0)(tests),
                _ => String::new(),
            }
        }
    }
    Box::new(Document(make))
}

/// `1 test`, `2 tests`.
fn tests(count: usize) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

#[derive(Clone, Copy)]
enum Ink {
    Red,
    Green,
    Yellow,
}

impl Manner {
    fn paint(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Red => 31,
            Ink::Green => 32,
            Ink::Yellow => 33,
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The word for an outcome.
    fn word(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Passed => self.paint(Ink::Green, "ok"),
            Outcome::Failed(_) | Outcome::Error(_) => self.paint(Ink::Red, "FAILED"),
            Outcome::Skipped(reason) if reason.is_empty() => self.paint(Ink::Yellow, "ignored"),
            Outcome::Skipped(reason) => {
                format!("{}, {}", self.paint(Ink::Yellow, "ignored"), crate::visible::visible_line(reason))
            }
        }
    }

    fn time(&self, test: &TestRecord) -> String {
        if !self.report_time || matches!(test.outcome, Outcome::Skipped(_)) {
            return String::new();
        }
        let time = format!("{:.3}s", test.duration.as_secs_f64());
        let time = match self.times {
            Some(times) if test.duration >= times.too_slow => self.paint(Ink::Red, &time),
            Some(times) if test.duration >= times.slow => self.paint(Ink::Yellow, &time),
            _ => time,
        };
        format!(" <{time}>")
    }

    /// What is told of a test under its name.
    fn section(&self, test: &TestRecord) -> String {
        format!("---- {} ----\n{}\n\n", test.name(), visible(&test.told()))
    }

    /// The end of a suite: what is still to be told, the names, the counts.
    fn ending(&self, all: &[TestRecord], totals: &Totals) -> String {
        let mut text = String::new();
        let mut part = |title: &str, chosen: &[&TestRecord]| {
            text.push_str(&format!("\n{title}:\n\n"));
            if !self.at_once {
                for test in chosen.iter().filter(|test| !test.told().is_empty()) {
                    text.push_str(&self.section(test));
                }
            }
            text.push_str(&format!("{}{title}:\n", if self.at_once { "" } else { "\n" }));
            for test in chosen {
                text.push_str(&format!("    {}\n", test.name()));
            }
        };
        let passed: Vec<_> = all.iter().filter(|test| test.outcome == Outcome::Passed).collect();
        if self.show_output && !passed.is_empty() {
            part("successes", &passed);
        }
        let failed: Vec<_> = all.iter().filter(|test| test.message().is_some()).collect();
        if !failed.is_empty() {
            part("failures", &failed);
        }
        let word = if totals.all_well() { self.paint(Ink::Green, "ok") } else { self.paint(Ink::Red, "FAILED") };
        text.push_str(&format!(
            "\ntest result: {word}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
            totals.passed,
            totals.failed + totals.errors,
            totals.ignored,
            totals.filtered_out,
            totals.duration.as_secs_f64(),
        ));
        if totals.errors > 0 {
            let of = if totals.failed == 0 { "none of them has a verdict" } else { "no verdict" };
            text.push_str(&format!("{} could not be run: {of}\n", tests(totals.errors)));
        }
        text.push('\n');
        text
    }
}
