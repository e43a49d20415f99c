//! Every test that a document names as proof exists: read out of the sources, so that a renamed test takes its promise along.
//! So does every file that a page leads to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Documents whose tables name tests in their last column. What is not there promises nothing.
const DOCUMENTS: [&str; 3] = ["SECURITY.md", "tests/README.md", "redroom-sidecar/src/search.rs"];

/// Where sources lie.
const SOURCES: [&str; 5] = ["tests", "redroom-harness", "redroom-sidecar", "redroom-macros", "src"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
}

/// The tests in a source: functions with an attribute that makes them one, and names that are given to a harness.
fn tests_in(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        marked |=
            ["#[test]", "#[tokio::test", "#[redroom::attack", "#[attack"].iter().any(|mark| line.starts_with(mark));
        let shared = ["pub(crate) ", "pub(super) "].iter().find_map(|shared| line.strip_prefix(shared));
        let function = shared.or(line.strip_prefix("pub ")).unwrap_or(line);
        let function = function.strip_prefix("async ").unwrap_or(function);
        if let Some((name, rest)) = function.strip_prefix("fn ").and_then(|rest| rest.split_once(['(', '<'])) {
            // What a suite with a harness of its own shares and takes nothing is given to that harness by its name.
            if marked || shared.is_some() && rest.starts_with(") {") {
                tests.push(name.to_owned());
            }
            marked = false;
        }
        for literal in line.split('"').skip(1).step_by(2) {
            if literal.split("::").all(is_name) && literal.contains('_')
                || literal.contains("::") && literal.split("::").all(is_name)
            {
                tests.push(literal.to_owned());
            }
        }
    }
    tests
}

/// All tests, by the folders, files and functions on the way to them.
fn every_test() -> BTreeSet<String> {
    let mut files = Vec::new();
    SOURCES.iter().for_each(|folder| sources(&root().join(folder), &mut files));
    let mut tests = BTreeSet::new();
    for file in files {
        let below = file.strip_prefix(root()).expect("it lies there").with_extension("");
        let mut way: Vec<_> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if way.last().is_some_and(|last| last == "main" || last == "mod" || last == "lib") {
            way.pop();
        }
        let source = std::fs::read_to_string(&file).expect("a source is text");
        // Unit tests that stand beside the code are in a module of their own.
        let beside = if source.contains("mod tests {") { vec!["", "tests::"] } else { vec![""] };
        let found = tests_in(&source);
        // A promise may name a module, if there are tests in it.
        if !found.is_empty() {
            tests.insert(way.join("::"));
            tests.extend(beside.last().filter(|tests| !tests.is_empty()).map(|_| format!("{}::tests", way.join("::"))));
        }
        for test in found {
            for module in &beside {
                tests.insert(format!("{}::{module}{test}", way.join("::")));
            }
            // A name in a harness of its own begins with the module already.
            if test.contains("::") {
                tests.insert(format!("{}::{test}", way[..way.len().saturating_sub(1)].join("::")));
                tests.insert(format!("{}::{test}", way.join("::")));
            }
        }
    }
    tests
}

/// `a::{b, c}` is two.
fn expanded(promise: &str) -> Vec<String> {
    let braces = promise.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match braces {
        Some((before, (names, after))) => {
            names.split(',').map(|name| format!("{before}{}{after}", name.trim())).collect()
        }
        None => vec![promise.to_owned()],
    }
}

/// Whether a test is the promised one. `…` and `*` stand for anything.
fn keeps(test: &str, promise: &str) -> bool {
    let pieces: Vec<&str> = promise.split(['…', '*', ' ']).collect();
    let mut rest = test;
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index + 1 == pieces.len();
        let place = if is_last { rest.ends_with(piece).then(|| rest.len() - piece.len()) } else { rest.find(piece) };
        let Some(at) = place else { return false };
        let starts_a_name = at == 0 || test[..test.len() - rest.len() + at].ends_with("::") || piece.starts_with("::");
        if index == 0 && !starts_a_name {
            return false;
        }
        rest = &rest[at + piece.len()..];
    }
    true
}

/// The tests that a document names in the last column of its tables, with the row they stand in.
fn promises(document: &str) -> Vec<(String, String)> {
    let mut promises = Vec::new();
    for line in document.lines().map(|line| line.trim_start_matches("//! ").trim()) {
        let Some(cell) = line.strip_prefix('|').and_then(|row| row.trim_end_matches('|').rsplit(" | ").next()) else {
            continue;
        };
        for token in cell.split('`').skip(1).step_by(2).filter(|token| token.contains("::")) {
            promises.extend(expanded(token).into_iter().map(|promise| (promise, line.to_owned())));
        }
    }
    promises
}

#[test]
fn every_test_that_a_document_names_exists() {
    let tests = every_test();
    let mut broken = Vec::new();
    let mut count = 0;
    for name in DOCUMENTS {
        let Ok(document) = std::fs::read_to_string(root().join(name)) else { continue };
        for (promise, row) in promises(&document) {
            count += 1;
            if !tests.iter().any(|test| keeps(test, &promise)) {
                broken.push(format!("{name} promises `{promise}`, which is not there: {row}"));
            }
        }
    }
    assert!(count > 40, "only {count} promises were found: were the tables moved?");
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// A claim without a test is a wish: each row of a table with a column of tests names one, or says in words why it has none.
#[test]
fn every_claim_of_the_security_page_has_a_test_or_a_reason() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).expect("it is there");
    let mut in_table = false;
    let mut rows = 0;
    for line in page.lines() {
        match line.strip_prefix('|') {
            None => in_table = false,
            Some(row) if row.trim_end_matches('|').trim().ends_with("test") => in_table = true,
            Some(row) if in_table && !row.contains("---") => {
                rows += 1;
                let cell = row.trim_end_matches('|').rsplit(" | ").next().unwrap_or_default().trim();
                assert!(cell.len() > 4, "no test and no reason: {line}");
            }
            Some(_) => {}
        }
    }
    assert!(rows > 40, "{rows}");
}

/// Pages and their folders, as somebody sees them who has the checkout or one of its packages.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().expect("a kind").is_dir() && !name.starts_with('.') && name != "target" {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Where a page leads to within the project: targets of links, without addresses of others.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// The names that a page's headings go by in links.
fn headings(page: &str) -> BTreeSet<String> {
    let titles = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | ' ');
    titles
        .map(|title| title.to_lowercase().chars().filter(|char| kept(*char)).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut found = Vec::new();
    pages(&root(), &mut found);
    let (mut count, mut broken) = (0, Vec::new());
    for page in found {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for link in links(&text) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            let has =
                |heading: &str| std::fs::read_to_string(&target).is_ok_and(|text| headings(&text).contains(heading));
            if !target.exists() || !heading.is_empty() && !has(heading) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(count > 20, "only {count} links were found");
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// A registry takes a readme's links from the crate's folder, wherever its text came from: one of another folder has none that work.
#[test]
fn every_crate_has_a_readme_in_its_own_folder() {
    for folder in ["", "redroom-macros", "redroom-harness", "redroom-sidecar"] {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.lines().any(|line| line == "readme = \"README.md\""), "{folder}");
        let readme = root().join(folder).join("README.md");
        assert!(readme.symlink_metadata().is_ok_and(|facts| facts.is_file()), "{}", readme.display());
    }
}

#[test]
fn a_promise_is_kept_by_its_test_and_by_no_other() {
    let test = "tests::shell::internet::a_secret_posted_over_http_is_a_leak";
    for kept in
        ["shell::internet::a_secret_posted_over_http_is_a_leak", "shell::internet::*", "internet::a_secret_…_is_a_leak"]
    {
        assert!(keeps(test, kept), "{kept}");
    }
    for broken in
        ["shell::internet::a_secret_posted", "ell::internet::*", "shell::isolation::*", "internet::a_…_is_no_leak"]
    {
        assert!(!keeps(test, broken), "{broken}");
    }
    assert_eq!(expanded("a::{b, c_d}"), ["a::b", "a::c_d"]);
    assert_eq!(
        tests_in("#[test]\nfn one() {}\nfn two() {}\ntrial(\"three::four_five\", x)"),
        ["one", "three::four_five"]
    );
}
