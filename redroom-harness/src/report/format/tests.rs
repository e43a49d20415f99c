use std::time::Duration;

use super::*;

fn record(path: &str, outcome: Outcome) -> TestRecord {
    TestRecord {
        path: path.to_owned(),
        file: "tests/attacks.rs".to_owned(),
        line: 7,
        should_panic: false,
        duration: Duration::from_millis(1500),
        outcome,
        story: "what the agent did:\n  nothing".to_owned(),
        properties: vec![("backend", "docker 28".to_owned())],
    }
}

fn records() -> Vec<TestRecord> {
    vec![
        record("a::web::held", Outcome::Passed),
        TestRecord {
            should_panic: true,
            ..record("a::web::leaked", Outcome::Failed("the \x1b[31mtoken got out".to_owned()))
        },
        record("a::web::lost", Outcome::Error("sidecar_lost: gone".to_owned())),
        TestRecord { story: String::new(), ..record("a::web::later", Outcome::Skipped("takes a week".to_owned())) },
    ]
}

fn told(mut format: Box<dyn Format>) -> String {
    let tests = records();
    let mut totals = Totals { filtered_out: 2, duration: Duration::from_secs(3), ..Totals::default() };
    let mut text = format.tell(Event::SuiteBegan { tests: tests.len(), seed: None });
    for test in &tests {
        totals.count(&test.outcome);
        text += &format.tell(Event::TestBegan { name: test.name() });
        text += &format.tell(Event::TestEnded(test));
    }
    text + &format.tell(Event::SuiteEnded { tests: &tests, totals: &totals })
}

#[test]
fn a_suite_is_told_as_libtest_tells_it() {
    let text = told(pretty(Manner::default()));
    let expected = "
running 4 tests
test web::held ... ok
test web::leaked - should panic ... FAILED
test web::lost ... FAILED
test web::later ... ignored, takes a week

failures:

---- web::leaked ----
the \\x1b[31mtoken got out
what the agent did:
  nothing

---- web::lost ----
sidecar_lost: gone
what the agent did:
  nothing


failures:
    web::leaked
    web::lost

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 2 filtered out; finished in 3.00s
1 test could not be run: no verdict

";
    assert_eq!(text, expected);
}

#[test]
fn a_failure_is_told_once_wherever_it_is_told() {
    for at_once in [true, false] {
        let manner = Manner { at_once, ..Manner::default() };
        for format in [pretty(manner), terse(manner), json(manner)] {
            let text = told(format);
            assert_eq!(text.matches("token got out").count(), 1, "{text}");
        }
    }
    let at_once = told(pretty(Manner { at_once: true, ..Manner::default() }));
    assert!(at_once.contains("FAILED\n---- web::leaked ----\n"), "{at_once}");
}

#[test]
fn passed_tests_are_told_of_and_timed_when_that_is_asked_for() {
    let text = told(pretty(Manner { show_output: true, report_time: true, ..Manner::default() }));
    assert!(text.contains("test web::held ... ok <1.500s>\n"), "{text}");
    assert!(text.contains("\nsuccesses:\n\n---- web::held ----\nwhat the agent did:\n"), "{text}");
    assert!(text.contains("\n\nsuccesses:\n    web::held\n\nfailures:\n"), "{text}");
}

#[test]
fn a_suite_can_be_told_in_few_characters() {
    let text = told(terse(Manner::default()));
    assert!(
        text.starts_with("\nrunning 4 tests\n. 1/4\nweb::leaked --- FAILED\nweb::lost --- FAILED\ni\n\nfailures:\n"),
        "{text}"
    );
}

#[test]
fn every_event_is_a_line_of_json() {
    let text = told(json(Manner { report_time: true, ..Manner::default() }));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> =
        lines.iter().map(|line| (line["type"].as_str().unwrap(), line["event"].as_str().unwrap())).collect();
    assert_eq!(events.first(), Some(&("suite", "started")));
    assert_eq!(events.last(), Some(&("suite", "failed")));
    assert_eq!(events.iter().filter(|event| **event == ("test", "failed")).count(), 2);
    assert_eq!((&lines[2]["exec_time"], &lines[2]["redroom"]["backend"]), (&1.5.into(), &"docker 28".into()));
    assert_eq!(lines[6]["redroom"]["could_not_run"], true);
    assert!(!text.contains('\x1b'));
}

#[test]
fn colours_are_there_when_they_are_asked_for_and_never_in_what_others_said() {
    let text = told(pretty(Manner { color: true, ..Manner::default() }));
    assert!(
        text.contains("test web::held ... \x1b[32mok\x1b[0m\n") && text.contains("\x1b[31mFAILED\x1b[0m"),
        "{text}"
    );
    assert!(!text.contains("\x1b[31mtoken"), "{text}");
}

#[test]
fn times_are_two_numbers_in_order() {
    assert_eq!(Times::parse("500,2000").map(|times| times.too_slow), Some(Duration::from_secs(2)));
    for wrong in ["", "500", "a,b", "2000,500", "-1,5"] {
        assert_eq!(Times::parse(wrong), None, "{wrong}");
    }
}
