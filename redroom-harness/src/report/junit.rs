//! The report that a CI job reads: JUnit's XML, one case for each test.
//!
//! What agents and pages said stands in it, so that every text is made visible and short first: a control character that
//! XML cannot hold would cost the job the whole file.

mod merge;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::record::{Outcome, TestRecord};
use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::run_folder::RunFolder;
use crate::visible::{visible, visible_line};

/// The most that is told of a failure, in bytes.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// The most of anything else, in characters: names, values, the line in which a failure is summed up.
const LINE_LIMIT: usize = 512;
/// How long another process may take to write its part.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Whether a report could be written there: to be known before an hour of attacks, not after it.
pub(crate) fn check(path: &Path) -> Result<()> {
    let checked = if path.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { beside(path).map(drop) };
    checked.map_err(|error| unwritable(path, &error))
}

/// Puts the tests into the report: whoever reads it sees the whole file as it was before, or as it is after. Several processes
/// of one run write into one file; what another run left in it is replaced.
pub(crate) fn write(path: &Path, origin: &Origin<'_>, records: &[TestRecord]) -> Result<()> {
    let _lock = lock(path)?;
    put_in_place(path, origin, records).map_err(|error| unwritable(path, &error))
}

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The run that this process is a part of: one `cargo test`, one `cargo nextest run`.
    pub(crate) run: &'a str,
    /// The package that the tests are in.
    pub(crate) package: &'a str,
    /// Which attempt it is at tests that are tried again, from 1.
    pub(crate) attempt: u32,
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let detail = format!("the JUnit report cannot be written to {} ({error}); name another file", path.display());
    Error::redroom("report_unwritable", detail)
}

/// Keeps other processes of this user from the file. The kernel frees it whatever ends this one, so that there is no stale lock.
pub(super) fn lock(path: &Path) -> Result<File> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    RunFolder::open()?.lock_report(absolute.as_os_str().as_encoded_bytes(), LOCK_PATIENCE)
}

fn put_in_place(path: &Path, origin: &Origin<'_>, records: &[TestRecord]) -> io::Result<()> {
    let mut report = report(origin, records);
    if let Some(earlier) = merge::earlier(path, origin) {
        report = merge::into(earlier, report, origin.attempt);
    }
    let mut file = beside(path)?;
    file.write_all(report.to_string().map_err(io::Error::other)?.as_bytes())?;
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

/// The report of these tests alone.
pub(crate) fn document(origin: &Origin<'_>, records: &[TestRecord]) -> io::Result<String> {
    report(origin, records).to_string().map_err(io::Error::other)
}

fn report(origin: &Origin<'_>, records: &[TestRecord]) -> Report {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for record in records {
        let suite = suites.entry(record.crate_name()).or_insert_with(|| suite(record.crate_name(), origin));
        suite.add_test_case(case(record, origin.attempt));
    }
    merge::whole(suites.into_values())
}

/// The property that says which run a suite is of.
const RUN: &str = "run";

fn suite(name: &str, origin: &Origin<'_>) -> TestSuite {
    let mut suite = TestSuite::new(line(name));
    suite.extra.insert("package".into(), line(origin.package).into());
    suite.add_property(Property::new(RUN, line(origin.run)));
    suite
}

fn case(record: &TestRecord, attempt: u32) -> TestCase {
    let mut case = TestCase::new(line(record.function()), status(record));
    case.set_classname(line(record.class()));
    case.set_time(record.duration);
    case.extra.insert("file".into(), line(&record.file).into());
    case.extra.insert("line".into(), record.line.to_string().into());
    case.add_properties(record.properties.iter().map(|(name, value)| Property::new(line(name), line(value))));
    if attempt > 1 {
        case.add_property(Property::new("attempt", attempt.to_string()));
    }
    case
}

fn status(record: &TestRecord) -> TestCaseStatus {
    let (mut status, kind) = match &record.outcome {
        Outcome::Passed => return TestCaseStatus::success(),
        Outcome::Failed(_) => (TestCaseStatus::non_success(NonSuccessKind::Failure), "failure"),
        Outcome::Error(_) => (TestCaseStatus::non_success(NonSuccessKind::Error), "error"),
        Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(line(reason));
            return status;
        }
    };
    let text = record.message().unwrap_or_default();
    status.set_type(kind).set_message(line(&headline(text))).set_description(message(&record.told()));
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
