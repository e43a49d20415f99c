//! A character for each test.

use super::{Event, Format, Ink, Manner, tests};
use crate::report::record::Outcome;

/// How many characters go on a line.
const WIDTH: usize = 88;

pub(super) struct Terse {
    manner: Manner,
    total: usize,
    told: usize,
    on_line: usize,
}

impl Terse {
    pub(super) fn new(manner: Manner) -> Self {
        Terse { manner, total: 0, told: 0, on_line: 0 }
    }
}

impl Format for Terse {
    fn tell(&mut self, event: Event<'_>) -> String {
        match event {
            Event::SuiteBegan { tests: count, seed } => {
                self.total = count;
                let seed = seed.map(|seed| format!(" (shuffle seed: {seed})")).unwrap_or_default();
                format!("\nrunning {}{seed}\n", tests(count))
            }
            Event::TestBegan { .. } => String::new(),
            Event::TestEnded(test) => {
                self.told += 1;
                let mark = match test.outcome {
                    Outcome::Passed => self.manner.paint(Ink::Green, "."),
                    Outcome::Skipped(_) => self.manner.paint(Ink::Yellow, "i"),
                    Outcome::Failed(_) | Outcome::Error(_) => {
                        let so_far = format!(" {}/{}\n", self.told - 1, self.total);
                        let end = if self.on_line > 0 { &so_far } else { "" };
                        self.on_line = 0;
                        let line = format!("{end}{} --- {}\n", test.name(), self.manner.word(&test.outcome));
                        return if self.manner.at_once { line + &self.manner.section(test) } else { line };
                    }
                };
                self.on_line += 1;
                if self.on_line < WIDTH {
                    return mark;
                }
                self.on_line = 0;
                format!("{mark} {}/{}\n", self.told, self.total)
            }
            Event::SuiteEnded { tests, totals } => {
                let end = if self.on_line > 0 { "\n" } else { "" };
                end.to_owned() + &self.manner.ending(tests, totals)
            }
        }
    }
}
