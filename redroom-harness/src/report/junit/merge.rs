//! Several processes' parts of one report.
//!
//! What is read back is a file on this machine, not what was written there before: it is bounded, and counts for nothing where it
//! is no report of ours of the same run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::{Origin, RUN};

/// The largest report that is read back, in bytes.
const SIZE_LIMIT: u64 = 256 * 1024 * 1024;

/// What other processes of the same run have written.
pub(super) fn earlier(path: &Path, origin: &Origin<'_>) -> Option<Report> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > SIZE_LIMIT {
        return None;
    }
    let mut report = Report::deserialize_from_str(&fs::read_to_string(path).ok()?).ok()?;
    let same = |suite: &TestSuite| {
        suite.properties.iter().any(|property| property.name.as_str() == RUN && property.value.as_str() == origin.run)
    };
    report.test_suites.retain(same);
    (!report.test_suites.is_empty()).then_some(report)
}

/// Both as one. A test that is in both has been tried again: the later attempt counts, and remembers the earlier.
pub(super) fn into(earlier: Report, later: Report, attempt: u32) -> Report {
    let mut suites = earlier.test_suites;
    for suite in later.test_suites {
        let same = |known: &&mut TestSuite| {
            known.name == suite.name && known.extra.get("package") == suite.extra.get("package")
        };
        match suites.iter_mut().find(same) {
            Some(known) => suite.test_cases.into_iter().for_each(|case| put(known, case, attempt)),
            None => suites.push(suite),
        }
    }
    suites.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    for suite in &mut suites {
        suite.test_cases.sort_by(|a, b| {
            let key = |case: &TestCase| {
                (case.classname.as_ref().map(|class| class.as_str().to_owned()), case.name.as_str().to_owned())
            };
            key(a).cmp(&key(b))
        });
    }
    whole(suites)
}

/// A report whose counts and times are those of its tests.
pub(super) fn whole(suites: impl IntoIterator<Item = TestSuite>) -> Report {
    let sum = |times: &mut dyn Iterator<Item = Option<Duration>>| {
        times.flatten().fold(Duration::ZERO, Duration::saturating_add)
    };
    let mut report = Report::new("redroom");
    for mut suite in suites {
        let cases = std::mem::take(&mut suite.test_cases);
        (suite.tests, suite.skipped, suite.errors, suite.failures) = (0, 0, 0, 0);
        suite.time = Some(sum(&mut cases.iter().map(|case| case.time)));
        suite.add_test_cases(cases);
        report.add_test_suite(suite);
    }
    report.time = Some(sum(&mut report.test_suites.iter().map(|suite| suite.time)));
    report
}

fn put(suite: &mut TestSuite, mut case: TestCase, attempt: u32) {
    let same = |known: &&mut TestCase| known.name == case.name && known.classname == case.classname;
    match suite.test_cases.iter_mut().find(same) {
        Some(known) => {
            if attempt > 1 {
                case.status.add_reruns(failures(&known.status));
            }
            *known = case;
        }
        None => suite.test_cases.push(case),
    }
}

/// How a test failed before it was tried again.
fn failures(status: &TestCaseStatus) -> Vec<TestRerun> {
    match status {
        TestCaseStatus::Success { flaky_runs } => flaky_runs.clone(),
        TestCaseStatus::Skipped { .. } => Vec::new(),
        TestCaseStatus::NonSuccess { kind, message, ty, description, reruns } => {
            let mut last = TestRerun::new(*kind);
            last.message.clone_from(message);
            let word = match kind {
                NonSuccessKind::Failure => "failure",
                NonSuccessKind::Error => "error",
            };
            last.ty = ty.clone().or_else(|| Some(word.into()));
            last.description.clone_from(description);
            reruns.runs.iter().cloned().chain([last]).collect()
        }
    }
}
