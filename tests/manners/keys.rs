//! Keys that redroom holds, said back by whoever is asked with them: they reach no sandbox, no file, no report, no screen.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::echo::Echo;
use crate::fixture;
use crate::suite::{PATIENCE, Place, start};

/// What must never be seen. Made here and now: a sidecar is this program, with every constant in it.
fn marked(kind: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("{kind}-marked-{}-{now}", std::process::id())
}

pub(crate) fn keys_that_a_model_and_a_guard_say_back_are_nowhere() {
    let place = Place::new();
    let echo = Echo::start();
    let (key, token, query, provider) = (marked("sk"), marked("tok"), marked("query"), marked("provider"));
    let (report, traces) = (place.path("junit.xml"), place.path("traces"));
    let ended = start(
        place
            .suite(&["keys::"])
            .env(fixture::ECHO, echo.url())
            .env(fixture::KEY, &key)
            .env(fixture::TOKEN, &token)
            .env(fixture::QUERY, &query)
            .env(fixture::PROVIDER, &provider)
            .env(fixture::TRACES, &traces)
            .env("REDROOM_JUNIT", &report),
    )
    .end(PATIENCE);
    ended.expect(101, &["1 passed; 4 failed"]);
    assert_eq!((echo.asked_with(&key), echo.asked_with(&token), echo.asked_with(&query)), (6, 3, 3));

    let held = [("key", &key), ("token", &token), ("query", &query), ("provider", &provider)];
    let assert_clean = |what: &str, bytes: &[u8]| {
        let found = redroom::find_secrets(bytes, held);
        assert_eq!(found, [], "in {what}: {}", String::from_utf8_lossy(bytes));
    };
    assert_clean("standard output", ended.out.as_bytes());
    assert_clean("standard error", ended.err.as_bytes());
    assert_clean("the report", &std::fs::read(report).unwrap());
    let traced = std::fs::read(traces).unwrap();
    assert!(!traced.is_empty());
    assert_clean("the traces", &traced);
    let mut files = Vec::new();
    files_below(&place.path("out"), &mut files);
    for file in &files {
        assert_clean(&file.display().to_string(), &std::fs::read(file).unwrap());
    }
    for name in ["hits.jsonl", "model_calls.jsonl", "tool_calls.jsonl", "errors.jsonl", "turn-0.out", "result.json"] {
        assert!(files.iter().any(|file| file.ends_with(name)), "no {name}: {files:?}");
    }
    // Each failing attack had told a key, in its own way.
    for name in ["panics_with_a_key", "panics_with_a_key_elsewhere", "fails_with_a_key", "cannot_even_be_planted"] {
        let (_, said) = ended.out.split_once(&format!("---- fixture::keys::{name} ----")).unwrap();
        assert!(said.lines().nth(1).is_some_and(|line| line.contains("it is [redacted]")), "{name}: {said}");
    }
    // An attack's own panic is told with the attack; that of a task which it spawned is printed as it happens.
    assert_eq!(ended.err.matches("panicked at").count(), 1, "{}", ended.err);
}

fn files_below(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}
