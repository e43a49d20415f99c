//! A JSON object for each event, as libtest has them, with `redroom` for what it does not know.

use serde_json::{Value, json};

use super::{Event, Format, Manner};
use crate::registry::{Ignore, Registration};
use crate::report::record::{Outcome, TestRecord, Totals};
use crate::visible::visible;

pub(super) struct Json(pub(super) Manner);

impl Format for Json {
    fn tell(&mut self, event: Event<'_>) -> String {
        let object = match event {
            Event::SuiteBegan { tests, seed: None } => {
                json!({ "type": "suite", "event": "started", "test_count": tests })
            }
            Event::SuiteBegan { tests, seed: Some(seed) } => {
                json!({ "type": "suite", "event": "started", "test_count": tests, "shuffle_seed": seed })
            }
            Event::TestBegan { name } => json!({ "type": "test", "event": "started", "name": name }),
            Event::TestEnded(test) => self.ended(test),
            Event::SuiteEnded { totals, .. } => suite(totals),
        };
        format!("{object}\n")
    }
}

impl Json {
    fn ended(&self, test: &TestRecord) -> Value {
        let event = match test.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed(_) | Outcome::Error(_) => "failed",
            Outcome::Skipped(_) => "ignored",
        };
        let mut object = json!({ "type": "test", "name": test.name(), "event": event });
        if self.0.report_time && event != "ignored" {
            object["exec_time"] = test.duration.as_secs_f64().into();
        }
        match &test.outcome {
            Outcome::Skipped(reason) if !reason.is_empty() => object["message"] = visible(reason).into(),
            Outcome::Passed if self.0.show_output && !test.story.is_empty() => {
                object["stdout"] = visible(&test.told()).into();
            }
            Outcome::Failed(_) | Outcome::Error(_) => {
                object["stdout"] = (visible(&test.told()).into_owned() + "\n").into()
            }
            _ => {}
        }
        let mut facts: serde_json::Map<String, Value> =
            test.properties.iter().map(|(name, value)| ((*name).to_owned(), visible(value).into())).collect();
        if matches!(test.outcome, Outcome::Error(_)) {
            facts.insert("could_not_run".to_owned(), true.into());
        }
        if !facts.is_empty() {
            object["redroom"] = facts.into();
        }
        object
    }
}

fn suite(totals: &Totals) -> Value {
    json!({
        "type": "suite",
        "event": if totals.all_well() { "ok" } else { "failed" },
        "passed": totals.passed,
        "failed": totals.failed + totals.errors,
        "ignored": totals.ignored,
        "measured": 0,
        "filtered_out": totals.filtered_out,
        "exec_time": totals.duration.as_secs_f64(),
    })
}

/// The list of tests.
pub(crate) fn discovered(attacks: &[&Registration]) -> String {
    let one = |attack: &&Registration| {
        let (ignore, message) = match attack.ignore {
            Ignore::No => (false, ""),
            Ignore::Yes => (true, ""),
            Ignore::Because(reason) => (true, reason),
        };
        let mut object = json!({
            "type": "test", "event": "discovered", "name": attack.test_name(), "ignore": ignore, "ignore_message": message,
            "source_path": attack.file, "start_line": attack.line,
        });
        if !attack.tags.is_empty() {
            object["redroom"] = json!({ "tags": attack.tags });
        }
        object
    };
    let ignored = attacks.iter().filter(|attack| attack.is_ignored()).count();
    let first = json!({ "type": "suite", "event": "discovery" });
    let last = json!({
        "type": "suite", "event": "completed", "tests": attacks.len(), "benchmarks": 0, "total": attacks.len(),
        "ignored": ignored,
    });
    let lines = std::iter::once(first).chain(attacks.iter().map(one)).chain([last]);
    lines.map(|line| format!("{line}\n")).collect()
}
