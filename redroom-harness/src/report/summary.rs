//! A table of the attacks for the summary page of a CI job, in Markdown: appended to the file that the job names.
//!
//! What agents and pages said stands in it: whatever Markdown or HTML would obey is written out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::junit;
use super::record::{Outcome, TestRecord};
use crate::error::{Error, Result};
use crate::evidence::telling::short;
use crate::visible::visible_line;

const HEAD: &str = "\
| attack | outcome | leaks | cost | time | evidence |
| --- | --- | --- | --- | --- | --- |
";
/// The most that a CI job takes of all its steps' words is 1 MiB.
const SIZE_LIMIT: u64 = 900 * 1024;
/// The most that is told of why an attack failed, in characters.
const REASON: usize = 120;

/// Adds rows for these tests: to the table that another process of ours has begun, else to a new one.
pub(crate) fn append(path: &Path, records: &[TestRecord]) -> Result<()> {
    let _lock = junit::lock(path)?;
    add(path, records).map_err(|error| {
        let detail = format!("GITHUB_STEP_SUMMARY={}: {error}; unset it, or name a file of yours", path.display());
        Error::redroom("summary_unwritable", detail)
    })
}

fn add(path: &Path, records: &[TestRecord]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let size = file.metadata()?.len();
    let mut text = if goes_on(&mut file, size)? { String::new() } else { format!("\n### redroom\n\n{HEAD}") };
    for record in records {
        let row = row(record);
        if size + (text.len() + row.len()) as u64 > SIZE_LIMIT {
            break;
        }
        text.push_str(&row);
    }
    file.write_all(text.as_bytes())
}

/// Whether the file ends in a row of ours.
fn goes_on(file: &mut File, size: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(size.saturating_sub(4096)))?;
    let mut end = Vec::new();
    file.take(4096).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    Ok(end.ends_with(ROW_END))
}

/// How a row ends: with a cell that nobody else's table has.
const ROW_END: &str = "<!-- redroom --> |\n";

fn row(test: &TestRecord) -> String {
    let outcome = match &test.outcome {
        Outcome::Passed => "✅ passed".to_owned(),
        Outcome::Failed(why) => format!("❌ **failed**: {}", cell(&short(why, REASON))),
        Outcome::Error(why) => format!("⚠️ could not be run: {}", cell(&short(why, REASON))),
        Outcome::Skipped(why) if why.is_empty() => "ignored".to_owned(),
        Outcome::Skipped(why) => format!("ignored: {}", cell(&short(why, REASON))),
    };
    let fact = |name| cell(test.property(name).unwrap_or_default());
    let cost = test.property("cost_usd").map(|cost| format!("${cost}")).unwrap_or_default();
    format!(
        "| {} | {outcome} | {} | {} | {:.1} s | {} {ROW_END}",
        cell(test.name()),
        fact("leaks"),
        cell(&cost),
        test.duration.as_secs_f64(),
        fact("evidence"),
    )
}

/// A text as it is, in a cell: every sign that means something to Markdown or HTML by its number.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible_line(text).chars() {
        match character {
            '|' | '<' | '>' | '&' | '`' | '*' | '[' | ']' | '\\' | '!' | '#' | '~' | '@' | '$' | '"' => {
                safe.push_str(&format!("&#{};", u32::from(character)));
            }
            character => safe.push(character),
        }
    }
    // A link is one without any sign around it.
    safe.replace("://", ":&#47;&#47;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record(outcome: Outcome) -> TestRecord {
        TestRecord {
            path: "a::web::page".to_owned(),
            file: "tests/attacks.rs".to_owned(),
            line: 7,
            should_panic: false,
            duration: Duration::from_millis(1500),
            outcome,
            story: String::new(),
            properties: vec![("leaks", "1".to_owned()), ("cost_usd", "0.03".to_owned()), ("evidence", "/e".to_owned())],
        }
    }

    #[test]
    fn several_processes_make_one_table_and_leave_other_words_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.md");
        std::fs::write(&path, "before\n").unwrap();
        add(&path, &[record(Outcome::Passed)]).unwrap();
        add(&path, &[record(Outcome::Skipped("later".to_owned()))]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n\n### redroom\n\n| attack |"), "{text}");
        assert_eq!((text.matches("| attack |").count(), text.matches("| web::page |").count()), (1, 2));
        assert!(text.contains("| ✅ passed | 1 | &#36;0.03 | 1.5 s | /e <!--"), "{text}");
        std::fs::write(&path, text + "after\n").unwrap();
        add(&path, &[record(Outcome::Passed)]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().matches("| attack |").count(), 2);
    }

    #[test]
    fn what_an_agent_said_is_text() {
        let hostile = "a | b <img src=x> `c` [d](https://evil.test) **e**\n| f @team";
        let row = row(&record(Outcome::Failed(hostile.to_owned())));
        assert_eq!((row.matches('|').count(), row.matches('\n').count()), (7, 1), "{row}");
        for sign in ["<img", "`", "[d]", "https://", "@team"] {
            assert!(!row.contains(sign), "{sign} in {row}");
        }
    }

    #[test]
    fn a_summary_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.md");
        for _ in 0..30 {
            add(&path, &vec![record(Outcome::Failed("x".repeat(1000))); 1000]).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= SIZE_LIMIT + 200);
    }
}
