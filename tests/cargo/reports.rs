//! Reports, as a CI job reads them.

use std::path::{Path, PathBuf};
use std::process::Command;

use roxmltree::Document;

use crate::place::{Place, ended};

const SECRET: &str = "PLATYPUS-7731";

/// Whether Jenkins' own schema takes the report. It knows no places and no properties of a test, and no count of skipped tests of
/// all suites, which other readers want, and which Jenkins passes over.
fn is_valid(place: &Place, report: &str) {
    let document = Document::parse(report).unwrap();
    let mut plain = report.to_owned();
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let mut ranges: Vec<_> = cases
        .flat_map(|case| {
            let places = case.attributes().filter(|attribute| ["file", "line"].contains(&attribute.name()));
            let properties = case.children().filter(|node| node.has_tag_name("properties"));
            places.map(|attribute| attribute.range()).chain(properties.map(|node| node.range())).collect::<Vec<_>>()
        })
        .collect();
    let skipped = document.root_element().attributes().filter(|attribute| attribute.name() == "skipped");
    ranges.extend(skipped.map(|attribute| attribute.range()));
    ranges.sort_by_key(|range| range.start);
    for range in ranges.into_iter().rev() {
        plain.replace_range(range, "");
    }
    let (schema, file) = (schema().unwrap(), place.path("plain.xml"));
    std::fs::write(&file, plain).unwrap();
    let checked = Command::new("xmllint").arg("--noout").arg("--schema").arg(schema).arg(file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Jenkins' schema, which is not ours to keep here; pytest's sources have it.
fn schema() -> Option<PathBuf> {
    std::env::var_os("REDROOM_TEST_JUNIT_SCHEMA").map(PathBuf::from)
}

/// Whether there are the schema and a program that holds documents against it.
pub(crate) fn schemas_can_be_checked() -> bool {
    schema().is_some() && Command::new("xmllint").arg("--version").output().is_ok()
}

pub(crate) fn jenkins_takes_the_report() {
    let place = Place::new();
    for (filter, outcomes) in [("ends", [6, 2, 0, 2]), ("tries", [1, 1, 0, 0])] {
        let mut suite = place.suite(&[filter, "--format", "junit"]);
        let printed = ended(suite.env("NEXTEST_ATTEMPT", "1"));
        assert_eq!(counts(&printed.out), outcomes, "{printed:#?}");
        is_valid(&place, &printed.out);
    }
    let path = place.path("again.xml");
    for attempt in ["1", "2"] {
        ended(place.suite(&["tries"]).env("NEXTEST_ATTEMPT", attempt).env("REDROOM_JUNIT", &path));
    }
    assert!(text(&path).contains("<flakyFailure"), "{}", text(&path));
    is_valid(&place, &text(&path));
}

fn counts(report: &str) -> [usize; 4] {
    let document = Document::parse(report).unwrap();
    ["testcase", "failure", "error", "skipped"]
        .map(|name| document.descendants().filter(|node| node.has_tag_name(name)).count())
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn several_processes_make_one_report_without_what_was_planted() {
    let place = Place::new();
    let path = place.path("reports/junit.xml");
    let junit = path.to_str().unwrap();
    place.run(&["ends", "--junit", junit]).expect(101, &["2 passed; 2 failed; 2 ignored"]);
    place.run(&["leaks", "--junit", junit]).expect(101, &["0 passed; 1 failed"]);
    let nowhere = ("DOCKER_HOST", "unix:///nonexistent");
    let mut without = place.suite(&["m01", "--backend", "docker", "--junit", junit]);
    ended(without.env(nowhere.0, nowhere.1)).expect(2, &["docker_unavailable"]);

    let report = text(&path);
    assert_eq!(counts(&report), [8, 3, 1, 2], "{report}");
    assert_eq!(redroom::find_secrets(report.as_bytes(), [("token", SECRET)]), [], "{report}");
    let document = Document::parse(&report).unwrap();
    let leak = document.descendants().find(|node| node.attribute("name") == Some("the_token_gets_out")).unwrap();
    assert_eq!(leak.attribute("classname"), Some("cargo::fixture::leaks"));
    assert!(leak.attribute("file").is_some_and(|file| file.ends_with("tests/cargo/fixture.rs")), "{report}");
    let property = |name: &str| {
        leak.descendants().find(|node| node.attribute("name") == Some(name)).and_then(|node| node.attribute("value"))
    };
    assert_eq!((property("agent"), property("leaks"), property("leaks_https")), (Some("shell"), Some("1"), Some("1")));
    assert!(property("evidence").is_some_and(|folder| Path::new(folder).join("result.json").exists()), "{report}");
    let failure = leak.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    for told in ["token (base64) in hit", "https POST to t.redroom.test", "\\x1b[31m]]>&#x1b;<failure>", "evidence: "] {
        assert!(failure.text().unwrap().contains(told), "{told}: {failure:?}");
    }
}

pub(crate) fn a_report_is_asked_for_in_every_way() {
    let place = Place::new();
    std::fs::write(place.path("redroom.toml"), "[report]\njunit = \"by-file.xml\"\n").unwrap();
    let arguments = ["fixture::ends::later", "--exact"];
    place.run(&arguments).expect(0, &["1 ignored"]);
    assert_eq!(counts(&text(&place.path("by-file.xml"))), [1, 0, 0, 1]);
    ended(place.suite(&arguments).env("REDROOM_JUNIT", place.path("by-variable.xml"))).expect(0, &["1 ignored"]);
    assert_eq!(counts(&text(&place.path("by-variable.xml"))), [1, 0, 0, 1]);
    let printed = place.run(&["fixture::ends::later", "--exact", "--format", "junit"]);
    printed.expect(0, &[]);
    assert_eq!(counts(&printed.out), [1, 0, 0, 1], "{printed:#?}");
}

pub(crate) fn a_job_gets_one_table() {
    let place = Place::new();
    let summary = place.path("summary.md");
    for filter in ["leaks", "ends::later"] {
        ended(place.suite(&[filter]).env("GITHUB_STEP_SUMMARY", &summary));
    }
    let table = text(&summary);
    assert_eq!((table.matches("| attack |").count(), table.matches("| fixture::").count()), (1, 3), "{table}");
    assert!(table.contains("| fixture::leaks::the_token_gets_out | ❌ **failed**: a planted secret"), "{table}");
    assert_eq!(redroom::find_secrets(table.as_bytes(), [("token", SECRET)]), [], "{table}");
}

pub(crate) fn tags_stand_in_reports() {
    let place = Place::new();
    let path = place.path("junit.xml");
    let mut suite = place.suite(&["--tag", "rude", "--tag", "quick", "--format", "json"]);
    let ran = ended(suite.env("REDROOM_JUNIT", &path));
    ran.expect(101, &[r#""tags":"calm,quick""#, r#""tags":"rude,web""#]);
    assert_eq!(counts(&text(&path)), [2, 1, 0, 0], "{}", text(&path));
    let report = text(&path);
    let document = Document::parse(&report).unwrap();
    let urgent = document.descendants().find(|node| node.attribute("name") == Some("urgent")).unwrap();
    assert_eq!(urgent.attribute("classname"), Some("cargo::fixture::cases::pages"));
    let tags = urgent.descendants().find(|node| node.attribute("name") == Some("tags")).unwrap();
    assert_eq!(tags.attribute("value"), Some("rude,web"));
}
