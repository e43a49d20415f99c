//! `docs/errors.md` names every code that the sources can give, and none that they cannot.
//!
//! The sources are read as text: a code stands behind a constructor of `Error`, itself or as a constant; where a constructor is
//! given a variable, every text of its file that looks like a code counts as one, unless it is known to be something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Texts that look like codes in files whose constructors are given variables.
const NO_CODES: [&str; 13] = [
    "agent_version",
    "api_error",
    "budget_exhausted",
    "hook_stopped",
    "max_turns",
    "model_proxy",
    "snake_case",
    "stop_hook_prevented",
    "tool_call_check",
    "tool_deferred",
    "tool_deferred_unavailable",
    "turn_limit_reached",
    "x86_64",
];
/// Codes that are one word.
const WORDS: [&str; 2] = ["timeout", "redacted"];
/// Codes that are made up of a word and a number, as the table has them.
const MADE: [(&str, &str); 1] = [("http_{}", "http_<status>")];

/// Source files without their tests, by path.
fn sources() -> BTreeMap<PathBuf, String> {
    let mut sources = BTreeMap::new();
    for part in ["redroom-harness/src", "redroom-sidecar/src"] {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part), &mut sources);
    }
    assert!(sources.len() > 100, "{}", sources.len());
    sources
}

fn read(folder: &Path, sources: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                read(&path, sources);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            sources.insert(path, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// What a constructor is given for its code.
#[derive(Debug, PartialEq)]
enum Given<'a> {
    Code(&'a str),
    Constant(&'a str),
    Variable,
}

/// The constructors in a source file.
fn constructors(text: &str) -> Vec<Given<'_>> {
    let mut found = Vec::new();
    for (name, has_by) in [("Error::new(", true), ("Error::redroom(", false), ("Error::backend(", false)] {
        for (at, _) in text.match_indices(name) {
            // `io::Error::new`, `syn::Error::new`, `Client::Error::new` are other errors.
            let before = text[..at].strip_suffix("crate::").unwrap_or(&text[..at]);
            if before.ends_with("::") || before.ends_with(|char: char| char.is_alphanumeric()) {
                continue;
            }
            let mut argument = text[at + name.len()..].trim_start();
            if has_by {
                let Some((by, rest)) = argument.split_once(',') else { continue };
                if !(by.contains("By::") || by == "by" || by.ends_with(".by()")) {
                    continue;
                }
                argument = rest.trim_start();
            }
            let word =
                |text: &str| text.find(|char: char| !(char.is_alphanumeric() || char == '_')).unwrap_or(text.len());
            found.push(match argument.strip_prefix('"') {
                Some(code) => Given::Code(&code[..word(code)]),
                None => {
                    let name = &argument[..word(argument)];
                    let constant = name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                    if constant { Given::Constant(name) } else { Given::Variable }
                }
            });
        }
    }
    found
}

/// Texts of a file that look like codes.
fn texts(text: &str) -> BTreeSet<&str> {
    let is_code = |text: &&str| {
        let letters = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        WORDS.contains(text) || text.contains('_') && text.split('_').all(letters)
    };
    text.split('"').filter(is_code).collect()
}

fn codes() -> BTreeSet<String> {
    let sources = sources();
    let mut codes: BTreeSet<String> = BTreeSet::new();
    for (path, text) in &sources {
        // What tells its own code is given to a constructor elsewhere.
        let mut open = text.contains("Report::Fault") || text.contains("fn code(&self) -> &'static str");
        for given in constructors(text) {
            match given {
                Given::Code(code) => drop(codes.insert(code.to_owned())),
                Given::Constant(name) => {
                    let declared = format!("const {name}: &str = \"");
                    let code = sources.values().find_map(|text| text.split_once(&declared)?.1.split('"').next());
                    let code = code.unwrap_or_else(|| panic!("{}: nothing declares {name}", path.display()));
                    codes.insert(code.to_owned());
                }
                Given::Variable => open = true,
            }
        }
        if open {
            codes.extend(texts(text).into_iter().filter(|text| !NO_CODES.contains(text)).map(str::to_owned));
        }
    }
    for (source, code) in MADE {
        assert!(sources.values().any(|text| text.contains(&format!("\"{source}\""))), "{source} stands nowhere");
        codes.insert(code.to_owned());
    }
    codes
}

/// Code, by and meaning of each row of the table.
fn table() -> Vec<[String; 4]> {
    let page = include_str!("../docs/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    rows.map(|row| {
        let cells: Vec<String> = row.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("four cells: {cells:?}"))
    })
    .collect()
}

#[test]
fn every_code_stands_in_the_table_once_and_every_row_is_a_code() {
    let codes = codes();
    let rows: Vec<String> = table().into_iter().map(|[code, ..]| code).collect();
    let listed: BTreeSet<String> = rows.iter().cloned().collect();
    let missing: Vec<_> = codes.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&codes).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks {missing:?}");
    assert!(unknown.is_empty(), "nothing gives {unknown:?}, which docs/errors.md names");
    assert_eq!(listed.len(), rows.len(), "a code has two rows");
    assert!(codes.len() > 80, "{codes:?}");
}

#[test]
fn every_row_says_whose_error_it_is_what_it_means_and_what_to_do() {
    let parties = ["redroom", "backend", "agent", "sidecar", "model_proxy", "tool_call_check", "any"];
    for [code, by, meaning, what_to_do] in table() {
        assert!(by.split(", ").all(|party| parties.contains(&party)), "{code}: {by}");
        assert!(meaning.len() > 10 && what_to_do.len() > 5, "{code}");
    }
}

#[test]
fn constructors_are_found_in_any_layout_and_others_errors_are_left_alone() {
    let text = "Err(Error::redroom(\n    \"one_code\",\n    detail))\ncrate::Error::new(crate::By::Agent, \"two_code\", x) \
                io::Error::new(ErrorKind::Other, \"not_one\") Error::new(By::Agent, SOME_CODE, x) Error::backend(code, x) \
                Error::new(key.span(), why)";
    assert_eq!(
        constructors(text),
        [Given::Code("two_code"), Given::Constant("SOME_CODE"), Given::Code("one_code"), Given::Variable]
    );
}
