//! The JUnit report, as a CI job reads it.

use roxmltree::Document;

use crate::suite::{PATIENCE, Place, start};

pub(crate) fn the_report_counts_right_and_holds_no_planted_secret() {
    let place = Place::new();
    let report = place.path("reports/junit.xml");
    let mut suite = place.suite(&["outcomes", "--skip", "leaves"]);
    let ended = start(suite.env("REDROOM_JUNIT", &report)).end(PATIENCE);
    ended.expect(101, &["3 passed; 4 failed; 1 ignored", "[redacted]"]);
    assert!(!ended.out.contains("PLATYPUS"), "{}", ended.out);

    let text = std::fs::read_to_string(report).unwrap();
    assert!(!text.contains("PLATYPUS"), "{text}");
    let report = Document::parse(&text).unwrap();
    let count = |name: &str| report.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!((count("testcase"), count("failure"), count("error"), count("skipped")), (8, 4, 0, 1));
    let root = report.root_element();
    assert_eq!((root.attribute("tests"), root.attribute("failures")), (Some("8"), Some("4")));
    let skipped = report.descendants().find(|node| node.has_tag_name("skipped")).unwrap();
    assert_eq!(skipped.attribute("message"), Some("takes a week"));
}
