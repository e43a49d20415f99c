//! A line for each test.

use super::{Event, Format, Manner, tests};

pub(super) struct Pretty(pub(super) Manner);

impl Format for Pretty {
    fn tell(&mut self, event: Event<'_>) -> String {
        let manner = self.0;
        match event {
            Event::SuiteBegan { tests: count, seed } => {
                let seed = seed.map(|seed| format!(" (shuffle seed: {seed})")).unwrap_or_default();
                format!("\nrunning {}{seed}\n", tests(count))
            }
            Event::TestBegan { .. } => String::new(),
            Event::TestEnded(test) => {
                let should_panic = if test.should_panic { " - should panic" } else { "" };
                let line = format!(
                    "test {}{should_panic} ... {}{}\n",
                    test.name(),
                    manner.word(&test.outcome),
                    manner.time(test)
                );
                if manner.at_once && test.message().is_some() { line + &manner.section(test) } else { line }
            }
            Event::SuiteEnded { tests, totals } => manner.ending(tests, totals),
        }
    }
}
