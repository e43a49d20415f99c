//! What Claude Code prints, against a reader that has all of it at once.

use serde::Deserialize;
use serde_json::Value;

use super::draw::chunks;
use crate::agent::{Agent, ClaudeCode, ParsedTurn};

pub(super) fn run(printed: &[u8]) {
    let code = [Some(0), Some(1), Some(137), Some(127), None][printed.len() % 5];
    let parsed = read(chunks(printed), code);
    assert_eq!(parsed, read(vec![printed], code));

    let lines: Vec<&[u8]> = printed.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    let told: Vec<&[u8]> = lines.iter().copied().filter(|line| serde_json::from_slice::<Typed>(line).is_ok()).collect();
    let mut events = told.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    // Everything that is an event is kept or counted, in its order; everything else is counted.
    assert!(parsed.events.iter().all(|event| events.any(|known| known == *event)), "{:?}", parsed.events);
    assert_eq!(parsed.events.len() as u64 + parsed.events_dropped, told.len() as u64);
    assert!(parsed.lines_unread >= (lines.len() - told.len()) as u64);
    assert!(parsed.final_text.len() <= 1024 * 1024 + 100);
    // It is well only if it has said so.
    let says_so = |event: &Value| event["type"] == "result" && event["is_error"] == false;
    assert!(parsed.error.is_some() || code == Some(0) && parsed.events.iter().any(says_so), "{:?}", parsed.events);
    for line in lines {
        if let Some(said) = ClaudeCode::new("2.1.332").said(&String::from_utf8_lossy(line)) {
            assert!(!said.is_empty() || line.len() > 20);
        }
    }
}

/// An object with one type, which is a text.
#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type")]
    _kind: String,
}

fn read(chunks: Vec<&[u8]>, code: Option<i64>) -> ParsedTurn {
    let mut reader = ClaudeCode::new("2.1.332").reader();
    chunks.iter().for_each(|chunk| reader.out(chunk));
    reader.err(&chunks.concat());
    reader.end(code)
}
