use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use roxmltree::{Document, Node};
use tempfile::TempDir;

use super::{Origin, Outcome, TestRecord, write};

const ORIGIN: Origin<'_> = Origin { run: "one", package: "shop", attempt: 1 };

fn xml(records: &[TestRecord]) -> std::io::Result<String> {
    super::document(&ORIGIN, records)
}

fn record(name: &str, outcome: Outcome) -> TestRecord {
    TestRecord {
        path: format!("attacks::{name}"),
        file: "tests/attacks.rs".to_owned(),
        line: 7,
        should_panic: false,
        duration: Duration::from_millis(1_500),
        outcome,
        story: String::new(),
        properties: vec![("backend", "docker 28.5.2".to_owned())],
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

#[test]
fn every_outcome_is_counted_and_told_apart() {
    let text = xml(&[
        record("web::held", Outcome::Passed),
        record("web::leaked", Outcome::Failed("api_token leaked\nto t.redroom.test".to_owned())),
        record("web::broken", Outcome::Error("backend_unavailable: start Docker".to_owned())),
        record("web::left_out", Outcome::Skipped("needs a key".to_owned())),
    ])
    .unwrap();
    let document = Document::parse(&text).unwrap();
    let report = document.root_element();
    for (attribute, count) in [("tests", "4"), ("failures", "1"), ("errors", "1")] {
        assert_eq!(report.attribute(attribute), Some(count), "{attribute} in {text}");
    }
    let suite = child(report, "testsuite").unwrap();
    assert_eq!(suite.attribute("name"), Some("attacks"));
    let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    assert_eq!(cases[0].attribute("name"), Some("held"));
    assert_eq!(cases[0].attribute("classname"), Some("attacks::web"));
    assert_eq!(suite.attribute("package"), Some("shop"));
    let properties = child(cases[0], "properties").unwrap();
    assert_eq!(child(properties, "property").unwrap().attribute("value"), Some("docker 28.5.2"));
    assert_eq!(cases[0].attribute("file"), Some("tests/attacks.rs"));
    assert_eq!(cases[0].attribute("line"), Some("7"));
    assert_eq!(cases[0].attribute("time"), Some("1.500"));
    let failure = child(cases[1], "failure").unwrap();
    assert_eq!(failure.attribute("message"), Some("api_token leaked"));
    assert_eq!(failure.text(), Some("api_token leaked\nto t.redroom.test"));
    assert!(child(cases[2], "error").is_some());
    assert_eq!(child(cases[3], "skipped").unwrap().attribute("message"), Some("needs a key"));
}

#[test]
fn a_line_that_only_announces_the_next_is_reported_with_it() {
    let leak = "a planted secret left the sandbox:\n  api_token (plain) in hit 3\nevidence: there";
    let text = xml(&[record("web::leaked", Outcome::Failed(leak.to_owned()))]).unwrap();
    let told = "message=\"a planted secret left the sandbox: api_token (plain) in hit 3\"";
    assert!(text.contains(told), "{text}");
}

#[test]
fn what_an_agent_prints_cannot_spoil_the_file() {
    let hostile = "ESC \x1b[31mred NUL \0 VT \x0b BOM \u{fffe} \u{ffff} end ]]> ref &#x1b; tag <failure> c1 \u{9b} \
                   surrogate "
        .to_owned()
        + &String::from_utf8_lossy(b"\xed\xa0\x80");
    let text = xml(&[record(&hostile, Outcome::Failed(hostile.clone()))]).unwrap();
    let document = Document::parse(&text).unwrap();
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    let shown = failure.text().unwrap();
    for part in
        ["\\x1b[31mred", "\\x00", "\\x0b", "\\u{fffe}", "\\u{ffff}", "]]>", "&#x1b;", "<failure>", "\\x9b", "\u{fffd}"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(failure.attribute("message"), Some(shown));
    assert_eq!(document.root_element().attribute("failures"), Some("1"));
    assert!(quick_junit::Report::deserialize_from_str(&text).is_ok());
}

#[test]
fn an_endless_message_keeps_its_ends() {
    let message = format!("first{}last", "\x1b".repeat(5_000_000));
    let text = xml(&[record("endless", Outcome::Failed(message))]).unwrap();
    assert!(text.len() < 80 * 1024, "{}", text.len());
    let document = Document::parse(&text).unwrap();
    let shown = document.descendants().find(|node| node.has_tag_name("failure")).unwrap().text().unwrap();
    assert!(shown.starts_with("first") && shown.ends_with("last"), "{shown}");
}

#[test]
fn the_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/er/junit.xml");
    write(&path, &ORIGIN, &[record("one", Outcome::Passed)]).unwrap();
    write(&path, &Origin { run: "two", ..ORIGIN }, &[record("two", Outcome::Passed)]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("two") && !text.contains("name=\"one\""));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

fn counts(report: Node<'_, '_>) -> [String; 3] {
    ["tests", "failures", "errors"].map(|name| report.attribute(name).unwrap().to_owned())
}

#[test]
fn parts_of_one_run_make_one_report() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("junit.xml");
    let failed = || Outcome::Failed("leaked".to_owned());
    let part = |records: &[TestRecord], origin: &Origin<'_>| write(&path, origin, records).unwrap();
    part(&[record("web::b", failed()), record("web::a", Outcome::Passed)], &ORIGIN);
    part(&[TestRecord { path: "others::c".to_owned(), ..record("", Outcome::Error("gone".to_owned())) }], &ORIGIN);
    part(&[record("web::a", Outcome::Passed)], &Origin { package: "till", ..ORIGIN });
    let text = fs::read_to_string(&path).unwrap();
    let document = Document::parse(&text).unwrap();
    assert_eq!(counts(document.root_element()), ["4", "1", "1"], "{text}");
    let suites: Vec<_> = document.root_element().children().filter(Node::is_element).collect();
    assert_eq!(suites.iter().map(|suite| suite.attribute("tests").unwrap()).collect::<Vec<_>>(), ["2", "1", "1"]);
    let names: Vec<_> =
        suites[0].descendants().filter_map(|node| node.attribute("classname").and(node.attribute("name"))).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_test_that_was_tried_again_is_one_test_that_remembers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("junit.xml");
    let failed = |why: &str| Outcome::Failed(why.to_owned());
    for (attempt, outcome) in [(1, failed("first")), (2, failed("second")), (3, Outcome::Passed)] {
        write(&path, &Origin { attempt, ..ORIGIN }, &[record("web::a", outcome)]).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let document = Document::parse(&text).unwrap();
    assert_eq!(counts(document.root_element()), ["1", "0", "0"], "{text}");
    let flaky: Vec<_> = document.descendants().filter(|node| node.has_tag_name("flakyFailure")).collect();
    assert_eq!(flaky.iter().map(|node| node.attribute("message").unwrap()).collect::<Vec<_>>(), ["first", "second"]);
    let attempt = document.descendants().find(|node| node.attribute("name") == Some("attempt")).unwrap();
    assert_eq!(attempt.attribute("value"), Some("3"));
    // The same test once more, not because it failed, takes its place.
    write(&path, &ORIGIN, &[record("web::a", failed("third"))]).unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("first"));
}

#[test]
fn many_processes_at_once_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("junit.xml");
    std::thread::scope(|scope| {
        for number in 0..16 {
            let path = &path;
            scope.spawn(move || write(path, &ORIGIN, &[record(&format!("web::t{number}"), Outcome::Passed)]).unwrap());
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(Document::parse(&text).unwrap().root_element().attribute("tests"), Some("16"));
}

#[test]
fn what_is_no_report_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("junit.xml");
    for other in ["", "<html>", "<?xml version=\"1.0\"?><testsuites name=\"x\"/>"] {
        fs::write(&path, other).unwrap();
        write(&path, &ORIGIN, &[record("one", Outcome::Passed)]).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("name=\"one\""));
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = write(&folder.path().join("file/junit.xml"), &ORIGIN, &[]).unwrap_err();
    assert_eq!(error.code(), "report_unwritable");
    assert!(error.detail().contains("junit.xml"));
}

proptest! {
    #[test]
    fn whatever_is_reported_parses(name in any::<String>(), text in any::<String>(), value in any::<String>()) {
        let mut record = record(&name, Outcome::Error(text));
        record.path = format!("{value}::{name}");
        record.properties.push(("evidence", value));
        let text = xml(&[record.clone(), TestRecord { outcome: Outcome::Skipped(name), ..record }]).unwrap();
        let document = Document::parse(&text);
        prop_assert!(document.is_ok(), "{:?} in {}", document, text);
        let count = document.unwrap().descendants().filter(|node| node.has_tag_name("testcase")).count();
        prop_assert_eq!(count, 2);
    }
}
