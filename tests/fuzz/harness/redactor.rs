//! Values that this side holds, in what it stores and passes on: none comes through, whatever it stands in and wherever it is
//! cut; JSON keeps its shape; what holds none stays as it is.

use bytes::Bytes;
use redroom_sidecar::wire::Octets;
use serde_json::{Value, json};

use super::draw::{Draw, chunks};
use crate::evidence::Redactor;

const KEYS: [&str; 5] = ["sk-held/\"7f3a\"-quoted", "tok-8842-aaaa", "aaaaaaaa", "abababab", "7731773177317731"];

pub(super) fn run(data: &[u8]) {
    let mut draw = Draw::new(data);
    let key = KEYS[draw.below(KEYS.len())];
    let other = KEYS[draw.below(KEYS.len())];
    let redactor = Redactor::new([key, other]);
    let (form, standing) = standing(&mut draw, key);
    // What is written as everybody writes it is taken out alone, and nothing is broken off.
    if matches!(form, 0 | 4 | 5) {
        let mut passage = redactor.passage();
        let text = [b"~~~~", &standing[..], b"~~~~"].concat();
        let mut out: Vec<u8> = chunks(&text).into_iter().flat_map(|chunk| passage.feed(chunk).unwrap()).collect();
        out.extend(passage.end().unwrap());
        assert_eq!(String::from_utf8_lossy(&out), "~~~~[redacted]~~~~");
    }
    let before = draw.take(100);
    // Much to look at: seldom.
    let is_far = draw.below(16) == 1;
    let mut edge = Draw::new(draw.take(1));
    let after = draw.rest();
    // Far enough from its end that a stream has to cut somewhere.
    let far = if is_far { b"line of a log\n".repeat(3000) } else { Vec::new() };
    let bytes = [before, &standing, after, &far].concat();

    let stored = redactor.bytes(bytes.clone());
    assert!(!redactor.finds(&stored), "{}", stored.escape_ascii());
    assert!(redactor.finds(&bytes) || stored == bytes);
    streamed(&redactor, chunks(&[&bytes[..], &bytes].concat()));
    // Much to look at: for some inputs only.
    if bytes.len() % 32 == 0 {
        over_an_edge(&mut edge, &redactor, [key, other], &bytes);
    }
    passed(&redactor, &bytes);
    json_keeps_its_shape(&redactor, before, &standing, after);
    if let Ok(value) = serde_json::from_slice::<Value>(after) {
        shaped(&redactor, &value);
    }
}

/// A value as it may be said back, and which form that is.
fn standing(draw: &mut Draw<'_>, key: &str) -> (usize, Vec<u8>) {
    let quoted = |text: &str| Value::from(text).to_string();
    let hex = |separator: &str| key.bytes().map(|byte| format!("{separator}{byte:02x}")).collect::<String>();
    let form = draw.below(9);
    let text = match form {
        0 => key.to_owned(),
        1 => key.to_uppercase(),
        2 => quoted(key),
        3 => quoted(&quoted(key)),
        4 => key.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        5 => hex(""),
        6 => hex(" "),
        7 => key.chars().map(|char| format!("\\u{:04x}", u32::from(char))).collect(),
        _ => String::new(),
    };
    (form, text.into_bytes())
}

/// For the evidence: a little late, and whole.
fn streamed(redactor: &Redactor, chunks: Vec<&[u8]>) {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for chunk in &chunks {
        stream.feed(chunk, |piece| out.extend_from_slice(piece));
    }
    stream.end(|piece| out.extend_from_slice(piece));
    assert!(!redactor.finds(&out), "{}", out[out.len().saturating_sub(2000)..].escape_ascii());
    let whole = chunks.concat();
    assert!(redactor.finds(&whole) || out == whole);
}

/// A stream is looked at piece by piece: what stands where one ends, where there is no good place to cut.
fn over_an_edge(draw: &mut Draw<'_>, redactor: &Redactor, keys: [&str; 2], bytes: &[u8]) {
    let longest = keys.map(str::len).into_iter().max().unwrap_or_default();
    let edge = (32 << 10) + 24 * longest + 64;
    let before = edge - draw.below(32);
    // Full of values, or without any and without a place to cut.
    let filler = if bytes.len().is_multiple_of(64) { keys[0] } else { "-" };
    let whole = [&filler.repeat(edge).as_bytes()[..before], keys[1].as_bytes(), bytes].concat();
    let (first, rest) = whole.split_at(edge.min(whole.len()));
    streamed(redactor, std::iter::once(first).chain(rest.chunks(5).take(60)).collect());
}

/// On the way into a sandbox: at once, or broken off before it is there.
fn passed(redactor: &Redactor, bytes: &[u8]) {
    let mut passage = redactor.passage();
    let mut out = Vec::new();
    let mut broken = false;
    for chunk in chunks(bytes) {
        match passage.feed(chunk) {
            Ok(piece) => out.extend(piece),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    if !broken {
        match passage.end() {
            Ok(piece) => out.extend(piece),
            Err(_) => broken = true,
        }
    }
    assert!(!redactor.finds(&out), "{}", out.escape_ascii());
    if !redactor.finds(bytes) {
        // All but the last bits of a value, in base64, is taken for it.
        let is_close = out.windows(10).any(|window| window == b"[redacted]");
        assert!(broken || is_close || out == bytes, "{}", out.escape_ascii());
    }
}

fn json_keeps_its_shape(redactor: &Redactor, before: &[u8], standing: &[u8], after: &[u8]) {
    let [before, standing, after] = [before, standing, after].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let number: Value = standing.parse::<u64>().map_or(Value::Null, Value::from);
    shaped(
        redactor,
        &json!({ "a": [&before, &standing, number], &standing: { "b": format!("{before}{standing}"), "c": true }, &after: [[], {}] }),
    );
}

fn shaped(redactor: &Redactor, value: &Value) {
    let redacted = redactor.answer(Bytes::from(value.to_string()));
    let redacted: Value = serde_json::from_slice(&redacted).expect("JSON stays JSON");
    assert!(alike(value, &redacted), "{value} became {redacted}");
    assert!(!redactor.finds(redacted.to_string().as_bytes()), "{redacted}");
    let octets = redactor.value(Octets::from(&*value.to_string()));
    assert!(!redactor.finds(octets.as_bytes()));
}

/// As many items and fields, in the same places; a text in place of a number, or of bytes that were written as an object.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len(),
        (Value::Object(a), Value::String(_)) => a.len() == 1 && a.contains_key("base64"),
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::String(_)) => true,
        (a, b) => a == b,
    }
}
