//! The report that a CI job reads: JUnit's XML, one case for each test.
//!
//! What agents and pages said stands in it, so that every text is made visible and short first: a control character that
//! XML cannot hold would cost the job the whole file.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::visible::{visible, visible_line};

/// The most that is told of a failure, in bytes.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// The most of anything else, in characters: names, values, the line in which a failure is summed up.
const LINE_LIMIT: usize = 512;

/// One test, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestRecord {
    /// `module::function`.
    pub(crate) name: String,
    /// The crate that the test stands in.
    pub(crate) crate_name: String,
    /// Where it stands.
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) duration: Duration,
    pub(crate) outcome: Outcome,
    /// Facts for whoever reads the report, such as the backend's name.
    pub(crate) properties: Vec<(String, String)>,
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

/// Whether a report could be written there: to be known before an hour of attacks, not after it.
pub(crate) fn check(path: &Path) -> Result<()> {
    let checked = if path.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { beside(path).map(drop) };
    checked.map_err(|error| unwritable(path, &error))
}

/// Writes the report: the whole file, or none of it.
pub(crate) fn write(path: &Path, records: &[TestRecord]) -> Result<()> {
    put_in_place(path, records).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let detail = format!("the JUnit report cannot be written to {} ({error}); name another file", path.display());
    Error::redroom("report_unwritable", detail)
}

fn put_in_place(path: &Path, records: &[TestRecord]) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(xml(records)?.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// A file under another name in the report's folder, gone when it is dropped.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    tempfile::Builder::new().prefix(".junit-").permissions(readable_by_all()).tempfile_in(folder)
}

/// What reads the report may be another user than the one that ran the tests.
fn readable_by_all() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o644)
}

fn xml(records: &[TestRecord]) -> io::Result<String> {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for record in records {
        let suite = suites.entry(&record.crate_name).or_insert_with(|| TestSuite::new(line(&record.crate_name)));
        suite.time = Some(suite.time.unwrap_or_default().saturating_add(record.duration));
        suite.add_test_case(case(record));
    }
    let mut report = Report::new("redroom");
    report.time = Some(suites.values().filter_map(|suite| suite.time).fold(Duration::ZERO, Duration::saturating_add));
    report.add_test_suites(suites.into_values());
    report.to_string().map_err(io::Error::other)
}

fn case(record: &TestRecord) -> TestCase {
    let mut case = TestCase::new(line(&record.name), status(&record.outcome));
    case.set_classname(line(&record.crate_name));
    case.set_time(record.duration);
    case.extra.insert("file".into(), line(&record.file).into());
    case.extra.insert("line".into(), record.line.to_string().into());
    case.add_properties(record.properties.iter().map(|(name, value)| Property::new(line(name), line(value))));
    case
}

fn status(outcome: &Outcome) -> TestCaseStatus {
    let (mut status, kind, text) = match outcome {
        Outcome::Passed => return TestCaseStatus::success(),
        Outcome::Failed(text) => (TestCaseStatus::non_success(NonSuccessKind::Failure), "failure", text),
        Outcome::Error(text) => (TestCaseStatus::non_success(NonSuccessKind::Error), "error", text),
        Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(line(reason));
            return status;
        }
    };
    status.set_type(kind).set_message(line(&headline(text))).set_description(message(text));
    status
}

/// The first line, and the next where the first only announces it: reports show it alone.
fn headline(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    match lines.next() {
        Some(first) if first.ends_with(':') => format!("{first} {}", lines.next().unwrap_or_default()),
        first => first.unwrap_or_default().to_owned(),
    }
}

/// Bounded before it is made visible, which can make it four times as long, and after.
fn message(text: &str) -> String {
    Excerpt::of(&visible(&Excerpt::of(text, MESSAGE_LIMIT)), MESSAGE_LIMIT)
}

fn line(text: &str) -> String {
    let mut characters = text.chars();
    let mut line = visible_line(&characters.by_ref().take(LINE_LIMIT).collect::<String>()).into_owned();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}
