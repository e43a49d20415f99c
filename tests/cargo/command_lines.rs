//! The same words to a suite and to a twin of plain tests that rustc's own harness runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::TWIN;
use crate::place::{Ended, Place, ended};

/// What starts nothing, or is refused. Written as on a command line.
const STARTS_NOTHING: [&str; 37] = [
    "--list",
    "--list --format terse",
    "--list --format=pretty",
    "--list -q",
    "--list --quiet --format pretty",
    "--list --ignored",
    "--list --include-ignored",
    "--list --ignored --format terse",
    "--list many",
    "--list many ends",
    "--list cases::pages",
    "--list fixture::cases::pages::polite --exact",
    "--list fixture::cases::pages --exact",
    "--list many --skip m1",
    "--list many --skip m1 --skip m05 --skip=m06",
    "--list fixture::ends::passes --exact",
    "--list ends::passes --exact",
    "--list fixture::ends::passes fixture::many::m01 --exact",
    "--list --exact fixture::ends::passes --skip fixture::ends::passes",
    "--list --exact many --skip m",
    "--list --exclude-should-panic -Z unstable-options",
    "--list nothing_like_it",
    "--list --test",
    "--list -- --exact",
    "--list --color never --test-threads=2 --show-output --nocapture --no-capture",
    "nothing_like_it",
    "nothing_like_it --test-threads 1 --format terse",
    "many::m01 --bench",
    "later",
    "fixture::ends::later --exact -q",
    "--no-such-flag",
    "--test-threads 0",
    "--test-threads many",
    "--color maybe",
    "--format xml",
    "--ignored --include-ignored",
    "--exact --exact many",
];

/// What runs attacks.
const RUNS: [&str; 14] = [
    "ends",
    "ends --test-threads 1",
    "ends -q --test-threads=1",
    "ends::passes ends::fails",
    "fixture::ends::passes --exact --nocapture",
    "ends --ignored",
    "ends --include-ignored --skip fails --skip error",
    "ends --exclude-should-panic -Z unstable-options",
    "ends::passes --show-output",
    "cases",
    "setups",
    "ends::passes --report-time -Z unstable-options",
    "ends::fails ends::passes --fail-fast --test-threads 1 -Z unstable-options",
    "ends --format json -Z unstable-options --test-threads 1",
];

/// The twin, built.
fn twin(place: &Place) -> PathBuf {
    let (source, program) = (place.path("twin.rs"), place.path("twin"));
    std::fs::write(&source, TWIN).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built =
        Command::new(rustc).args(["--edition", "2024", "--test", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

fn run_twin(place: &Place, program: &Path, line: &str) -> Ended {
    let mut twin = Command::new(program);
    // What libtest has not made stable it takes only from those who say this.
    twin.args(line.split(' ')).env("RUSTC_BOOTSTRAP", "1");
    place.settle(&mut twin);
    ended(&mut twin)
}

/// What of an output counts: everything but times, and what is told of failures.
fn essence(out: &str) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for line in out.lines() {
        let line = line.split("; finished in").next().unwrap_or_default();
        let line = line.split(" <").next().unwrap_or_default().trim_end();
        match serde_json::from_str::<serde_json::Value>(line) {
            Ok(mut event) if event.is_object() => {
                for loose in ["stdout", "exec_time", "redroom"] {
                    event.as_object_mut().unwrap().remove(loose);
                }
                lines.insert(event.to_string());
            }
            _ if ["running ", "test ", "test result", "    fixture::", "failures:", "successes:"]
                .iter()
                .any(|counts| line.starts_with(counts))
                || line.contains(" --- ") =>
            {
                lines.insert(line.to_owned());
            }
            _ => {}
        }
    }
    lines
}

/// The characters that stand for tests, in whatever order they came.
fn marks(out: &str) -> Vec<char> {
    let words = out.lines().filter_map(|line| line.split(' ').next());
    let lines = words.filter(|word| !word.is_empty() && word.chars().all(|mark| ".i".contains(mark)));
    let mut marks: Vec<char> = lines.flat_map(str::chars).collect();
    marks.sort_unstable();
    marks
}

pub(crate) fn every_command_line_means_what_it_means_to_libtest() {
    let place = Place::new();
    let program = twin(&place);
    for line in STARTS_NOTHING {
        let (ours, theirs) = (place.run(&line.split(' ').collect::<Vec<_>>()), run_twin(&place, &program, line));
        assert_eq!(ours.code, theirs.code, "{line}: {ours:#?} {theirs:#?}");
        if line.contains("--list") {
            assert_eq!(ours.out, theirs.out, "{line}");
        } else {
            assert_eq!(essence(&ours.out), essence(&theirs.out), "{line}");
        }
        assert_eq!(ours.out.is_empty(), theirs.out.is_empty(), "{line}: {ours:#?}");
        assert!(!ours.err.contains("panicked"), "{line}: {ours:#?}");
    }
    assert!(!place.path("run/redroom").exists(), "something was started");
    let mut differences = Vec::new();
    for line in RUNS {
        let (ours, theirs) = (place.run(&line.split(' ').collect::<Vec<_>>()), run_twin(&place, &program, line));
        let told = |ended: &Ended| (ended.code, essence(&ended.out), marks(&ended.out));
        if told(&ours) != told(&theirs) {
            differences.push((line, told(&ours), told(&theirs)));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

pub(crate) fn an_order_can_be_had_again() {
    let place = Place::new();
    let order = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["--bench", "--test-threads", "1"].iter().chain(arguments).copied().collect();
        let ended = place.run(&arguments);
        ended.expect(0, &["ignored"]);
        let names = ended.out.lines().filter_map(|line| line.strip_prefix("test fixture::")).map(str::to_owned);
        (names.collect::<Vec<_>>(), ended.out)
    };
    let (sorted, _) = order(&[]);
    let (mixed, out) = order(&["--shuffle"]);
    assert_ne!(mixed, sorted);
    let seed = out.split_once("(shuffle seed: ").unwrap().1.split_once(')').unwrap().0;
    assert_eq!(order(&["--shuffle-seed", seed]).0, mixed);
    assert_eq!(mixed.iter().collect::<BTreeSet<_>>(), sorted.iter().collect::<BTreeSet<_>>());
}

pub(crate) fn attacks_are_chosen_by_their_tags() {
    const PASSES: &str = "fixture::ends::passes: test\n";
    const LATER: &str = "fixture::cases::pages::later: test\n";
    const POLITE: &str = "fixture::cases::pages::polite: test\n";
    const URGENT: &str = "fixture::cases::pages::urgent: test\n";
    let place = Place::new();
    let list = |line: &str, set: &[(&str, &str)]| {
        let words = ["--list", "--format", "terse"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty()));
        ended(place.suite(&words.collect::<Vec<_>>()).envs(set.iter().copied()))
    };
    for (line, set, expected) in [
        ("--tag calm", &[][..], vec![PASSES]),
        ("--tag web", &[], vec![LATER, POLITE, URGENT]),
        ("--tag=rude --tag quick", &[], vec![URGENT, PASSES]),
        ("--tag web --skip-tag rude", &[], vec![LATER, POLITE]),
        ("--tag web polite", &[], vec![POLITE]),
        ("--tag web --ignored", &[], vec![LATER]),
        ("--tag web --exact fixture::ends::passes", &[], vec![]),
        ("", &[("REDROOM_TAGS", "calm,rude")], vec![URGENT, PASSES]),
        ("", &[("REDROOM_TAGS", "web"), ("REDROOM_SKIP_TAGS", "rude")], vec![LATER, POLITE]),
        ("--tag calm", &[("REDROOM_TAGS", "web")], vec![PASSES]),
        ("", &[("REDROOM_TAGS", "elsewhere")], vec![]),
    ] {
        let listed = list(line, set);
        listed.expect(0, &[]);
        assert_eq!((listed.out, listed.err), (expected.concat(), String::new()), "{line} {set:?}");
    }
    assert!(!list("--skip-tag web", &[]).out.contains("cases") && list("--skip-tag web", &[]).out.contains(PASSES));

    let slipped = place.run(&["--tag", "rdue"]);
    slipped.expect(101, &["unknown_tag", "--tag: no attack here has the tag `rdue`; did you mean `rude`?"]);
    assert_eq!(slipped.out, "", "{slipped:#?}");
    let told = ended(place.suite(&[]).env("REDROOM_TAGS", "rdue"));
    told.expect(
        0,
        &["0 passed; 0 failed; 0 ignored", "REDROOM_TAGS: no attack here has the tag `rdue`; did you mean `rude`?"],
    );
    let discovered = place.run(&["--list", "--format", "json", "--tag", "rude"]);
    discovered.expect(0, &[r#""redroom":{"tags":["rude","web"]}"#]);
    assert!(!place.path("run/redroom").exists(), "something was started");
}
