//! One test, as it is reported: what all reports are made of.

use std::time::Duration;

/// One test, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestRecord {
    /// Crate, modules, function and case: `attacks::web::setup_page::polite`.
    pub(crate) path: String,
    /// Where it stands.
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) should_panic: bool,
    pub(crate) duration: Duration,
    pub(crate) outcome: Outcome,
    /// What happened, in a few lines: told with a failure, and of all tests where that is asked for.
    pub(crate) story: String,
    /// Facts for whoever reads the report, such as the backend's name.
    pub(crate) properties: Vec<(&'static str, String)>,
}

/// How a test ended. What it is about (`Failed`) and what kept it from telling (`Error`) are told apart, so that a broken
/// machine does not look like a breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    Error(String),
    Skipped(String),
}

impl TestRecord {
    /// `module::function`, and `::case`: what filters are compared with.
    pub(crate) fn name(&self) -> &str {
        self.path.split_once("::").map_or(&self.path, |(_, name)| name)
    }

    pub(crate) fn crate_name(&self) -> &str {
        self.path.split("::").next().unwrap_or_default()
    }

    /// Crate and modules, and the function whose case it is.
    pub(crate) fn class(&self) -> &str {
        self.path.rsplit_once("::").map_or(&self.path, |(class, _)| class)
    }

    /// The function alone, or the case.
    pub(crate) fn function(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or_default()
    }

    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// What is told of a test that did not pass.
    pub(crate) fn message(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(message) | Outcome::Error(message) => Some(message),
            Outcome::Passed | Outcome::Skipped(_) => None,
        }
    }

    /// The whole of what there is to tell: the message, then the story.
    pub(crate) fn told(&self) -> String {
        let parts = [self.message().unwrap_or_default().trim_end(), self.story.trim_end()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// All of them, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) errors: usize,
    pub(crate) ignored: usize,
    pub(crate) filtered_out: usize,
    pub(crate) duration: Duration,
}

impl Totals {
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Error(_) => self.errors += 1,
            Outcome::Skipped(_) => self.ignored += 1,
        }
    }

    pub(crate) fn all_well(&self) -> bool {
        self.failed + self.errors == 0
    }
}
