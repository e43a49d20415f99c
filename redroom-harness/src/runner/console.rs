//! What a suite prints: results in libtest's form, what is under way below them, and what agents do where that is asked for.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::arguments::{Color, Display, Format};
use crate::backend::BackendFacts;
use crate::report::format::{self, Event, Manner};
use crate::report::junit::{self, Origin};
use crate::report::progress::Board;
use crate::report::record::{Outcome, TestRecord, Totals};
use crate::report::screen::{self, Screen};
use crate::run::{Moment, Observer};
use crate::visible::visible_line;

/// Where everything that a suite says comes together. Every method may be called from any thread.
pub(super) struct Console {
    screen: Screen,
    format: Mutex<Box<dyn format::Format>>,
    board: Mutex<Board>,
    streams: bool,
    quiet: bool,
    /// Nothing is under way any more.
    over: AtomicBool,
}

impl Console {
    /// `tests` will be told of; `run` and `package` stand in a JUnit document.
    pub(super) fn new(display: Display, tests: usize, origin: OwnedOrigin) -> Arc<Self> {
        let streams = display.no_capture && matches!(display.format, Format::Pretty | Format::Terse);
        let manner = Manner {
            color: match display.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => screen::wants_color(),
            },
            at_once: display.no_capture,
            show_output: display.show_output,
            report_time: display.report_time || display.ensure_time,
            times: display.times,
        };
        let format = match display.format {
            Format::Pretty => format::pretty(manner),
            Format::Terse => format::terse(manner),
            Format::Json => format::json(manner),
            Format::Junit => {
                format::document(move |tests| junit::document(&origin.borrowed(), tests).unwrap_or_default() + "\n")
            }
        };
        Arc::new(Console {
            screen: Screen::of_process(!streams && !display.quiet),
            format: Mutex::new(format),
            board: Mutex::new(Board::new(tests, Instant::now())),
            streams,
            quiet: display.quiet,
            over: AtomicBool::new(false),
        })
    }

    pub(super) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Whether the doings of agents are shown while they are done.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    pub(super) fn suite_began(&self, tests: usize, seed: Option<u64>) {
        self.tell(Event::SuiteBegan { tests, seed });
    }

    pub(super) fn test_began(&self, name: &str) {
        self.board().began(name, Instant::now());
        self.tell(Event::TestBegan { name });
        self.refresh();
    }

    pub(super) fn test_ended(&self, test: &TestRecord) {
        self.board().ended(test);
        self.tell(Event::TestEnded(test));
        let word = match test.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed(_) | Outcome::Error(_) => "failed",
            Outcome::Skipped(_) => "ignored",
        };
        self.screen.log(&format!("{word} {}", test.name()));
        self.refresh();
    }

    pub(super) fn suite_ended(&self, tests: &[TestRecord], totals: &Totals) {
        self.end_progress();
        self.tell(Event::SuiteEnded { tests, totals });
    }

    /// Says once where everything runs, and where the evidence lies.
    pub(super) fn uses(&self, backend: &BackendFacts, profile: Option<&str>, evidence: &Path) {
        if !self.quiet {
            let profile = profile.map(|name| format!("; profile {name}")).unwrap_or_default();
            let line = format!("{} ({}){profile}; evidence in {}", backend.name, backend.why, evidence.display());
            self.screen.note(&visible_line(&line));
        }
    }

    /// Shows how far everything is by now.
    pub(super) fn refresh(&self) {
        self.screen.status(|width| match self.over.load(Ordering::Acquire) {
            true => Vec::new(),
            false => self.board().lines(Instant::now(), width),
        });
    }

    /// Takes away what stood below, for good: the last words are about to be said.
    pub(super) fn end_progress(&self) {
        self.over.store(true, Ordering::Release);
        self.refresh();
    }

    fn tell(&self, event: Event<'_>) {
        let mut format = self.format.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format.tell(event);
        if !text.is_empty() {
            self.screen.print(&text);
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Console {
    fn notice(&self, line: &str) {
        self.board().prepares(line);
        if !self.quiet {
            self.screen.note(&visible_line(line));
        }
        self.refresh();
    }

    fn watches(&self) -> bool {
        self.streams || self.screen.shows_status()
    }

    fn listens(&self) -> bool {
        self.streams
    }

    fn moment(&self, attack: &str, moment: Moment) {
        self.board().moment(attack, &moment);
        if self.streams {
            let lines: String =
                streamed(&moment).iter().map(|line| format!("{attack} {}\n", visible_line(line))).collect();
            if !lines.is_empty() {
                self.screen.print(&lines);
            }
        }
        self.refresh();
    }
}

/// A moment in lines of its own: who does something is told by the sign before it.
fn streamed(moment: &Moment) -> Vec<String> {
    match moment {
        Moment::MovedIn { .. } => Vec::new(),
        Moment::TurnBegan { message, .. } => message.lines().map(|line| format!("> {line}")).collect(),
        Moment::Said(line) => vec![format!("| {line}")],
        Moment::ToolCall { id, line } => vec![format!("* call {id}: {line}")],
        Moment::Hit { id, line } => vec![format!("@ hit {id}: {line}")],
        Moment::TurnEnded { index, duration, cost_usd, failed } => {
            let cost = cost_usd.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
            let how = if *failed { "failed" } else { "ended" };
            vec![format!("= turn {} {how} after {:.1} s{cost}", index + 1, duration.as_secs_f64())]
        }
    }
}

/// [`Origin`], to be kept.
#[derive(Clone, Debug)]
pub(super) struct OwnedOrigin {
    pub(super) run: String,
    pub(super) package: String,
    pub(super) attempt: u32,
}

impl OwnedOrigin {
    pub(super) fn borrowed(&self) -> Origin<'_> {
        Origin { run: &self.run, package: &self.package, attempt: self.attempt }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_does_something_is_told_by_the_sign_before_it() {
        for (moment, lines) in [
            (Moment::MovedIn { slot: 1 }, &[][..]),
            (Moment::TurnBegan { index: 0, message: "Read\nthis".to_owned() }, &["> Read", "> this"]),
            (Moment::Said("I will".to_owned()), &["| I will"]),
            (Moment::ToolCall { id: 2, line: "Bash ls: denied".to_owned() }, &["* call 2: Bash ls: denied"]),
            (Moment::Hit { id: 1, line: "dns to t.test".to_owned() }, &["@ hit 1: dns to t.test"]),
            (
                Moment::TurnEnded {
                    index: 0,
                    duration: Duration::from_millis(1500),
                    cost_usd: Some(0.5),
                    failed: false,
                },
                &["= turn 1 ended after 1.5 s, $0.50"],
            ),
        ] {
            assert_eq!(streamed(&moment), lines);
        }
    }
}
