use std::time::Duration;

use proptest::prelude::*;
use redroom_sidecar::search::Encoding;
use redroom_sidecar::wire::{Found, Hit, Octets, Part, Protocol};
use serde_json::{Value, json};

use super::*;
use crate::error::{By, Call};
use crate::evidence::RecordedToolCall;
use crate::guard::{RecordedDecision, Ruling};

const KEY: &str = "sk-held-\"7f3a\"-quoted";

fn redactor() -> Redactor {
    Redactor::new([KEY, "Bearer tok-8842-aaaa", "short"])
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The key as every encoding shows it.
fn disguises() -> Vec<String> {
    let wrapped = STANDARD.encode(format!("xx{KEY}")).replace("LWhl", "LW\nhl");
    vec![
        KEY.to_owned(),
        KEY.to_ascii_uppercase(),
        percent(KEY),
        percent(&percent(KEY)),
        hex(KEY),
        STANDARD.encode(KEY),
        wrapped,
        json!(KEY).to_string(),
        json!(json!(KEY).to_string()).to_string(),
        "tok-8842-aaaa".to_owned(),
    ]
}

fn holds(bytes: &[u8]) -> bool {
    redactor().0.unwrap().is_in(bytes)
}

#[test]
fn no_disguise_of_a_held_value_stays_in_text_bytes_or_values() {
    for disguise in disguises() {
        assert!(holds(disguise.as_bytes()), "the search knows {disguise}");
        let text = redactor().text(format!("before\n{disguise} after\n"));
        assert!(!holds(text.as_bytes()) && text.contains("before") && text.contains("after"), "{disguise}: {text}");
        let bytes = redactor().bytes([b"\xff", disguise.as_bytes(), b"\xfe"].concat());
        assert!(!holds(&bytes), "{disguise}");
        let call = redactor().value(tool_call(json!({ "deep": [{ disguise.clone(): disguise }], "n": 1.5 })));
        assert!(!holds(call.input.to_string().as_bytes()), "{}", call.input);
        assert_eq!(call.input["n"], 1.5);
    }
}

#[test]
fn a_stream_cut_anywhere_holds_none_and_loses_nothing_else() {
    for disguise in disguises() {
        for chunk in [1, 7, 4096, 1 << 20] {
            let filler = "{\"line\": \"of some length, with é in it\"}\n".repeat(2500);
            let stream = format!("{filler}{disguise}\n{filler}{disguise}");
            let mut redacted = Vec::new();
            let mut redaction = redactor().stream();
            for chunk in stream.as_bytes().chunks(chunk) {
                redaction.feed(chunk, |bytes| redacted.extend_from_slice(bytes));
            }
            redaction.end(|bytes| redacted.extend_from_slice(bytes));
            let text = String::from_utf8(redacted).unwrap();
            assert!(!holds(text.as_bytes()), "{disguise} in chunks of {chunk}");
            assert_eq!(text.matches("of some length, with é in it").count(), 5000);
        }
    }
}

#[test]
fn an_endless_line_is_redacted_too() {
    let mut redaction = redactor().stream();
    let mut redacted = Vec::new();
    let line = format!("{}{KEY}", "x".repeat(1021)).repeat(400);
    for chunk in line.as_bytes().chunks(1000) {
        redaction.feed(chunk, |bytes| redacted.extend_from_slice(bytes));
    }
    redaction.end(|bytes| redacted.extend_from_slice(bytes));
    assert!(!holds(&redacted));
    assert_eq!(redacted.iter().filter(|&&byte| byte == b'x').count(), 1021 * 400);
}

#[test]
fn lines_of_json_stay_lines_of_json_beside_lines_that_are_none() {
    let redactor = Redactor::new(["1234567890"]);
    let text = redactor.text("no json\n{\"n\": 1234567890}\n{\"s\": \"1234567890\"}\n".to_owned());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines, ["no json", "{\"n\": \"[redacted]\"}", "{\"s\": \"[redacted]\"}"]);
}

#[test]
fn errors_are_redacted_in_their_call_too() {
    let call =
        Call { command: Some(format!("curl {KEY}")), url: Some(format!("https://a.example/{KEY}")), ..Call::default() };
    let error = redactor().error(Error::new(By::ModelProxy, "upstream_failed", format!("says {KEY}")).with_call(call));
    assert_eq!(error.detail(), "says [redacted]");
    assert!(!holds(&serde_json::to_vec(&error).unwrap()));
    assert_eq!(error.code(), "upstream_failed");
}

#[test]
fn bytes_that_are_no_text_stay_readable_as_what_they_are() {
    let octets = redactor().value(Octets([b"\xff", KEY.as_bytes()].concat()));
    assert_eq!(octets.to_text(), "\u{fffd}[redacted]");
    let untouched = Octets(b"\xff\xfe".to_vec());
    assert_eq!(redactor().value(untouched.clone()), untouched);
}

#[test]
fn a_numeric_value_that_is_also_a_field_of_a_type_does_not_keep_the_rest_from_being_redacted() {
    let mut hit =
        Hit::new(1, 12_345_678, Protocol::Https, "a.redroom.test".into(), ([192, 0, 2, 9], 443).into(), false);
    hit.path = "/12345678".to_owned();
    let redacted = Redactor::new(["12345678"]).value(hit);
    assert_eq!(redacted.at_ms, 12_345_678);
    assert_eq!(redacted.path, "/[redacted]");
}

#[test]
fn of_a_type_with_numbers_of_its_own_the_numbers_that_somebody_else_wrote_are_redacted_all_the_same() {
    let mut call = tool_call(json!({ "n": 12_345_678, "12345678": 1, "deep": [[12_345_678]] }));
    call.latency_ms = 12_345_678;
    let redacted = Redactor::new(["12345678"]).value(call);
    assert_eq!(redacted.latency_ms, 12_345_678);
    assert_eq!(redacted.input, json!({ "n": "[redacted]", "[redacted]": 1, "deep": [["[redacted]"]] }));
}

#[test]
fn an_entry_that_cannot_be_redacted_is_withheld_and_keeps_what_it_proves() {
    let proof = Found { secret: "token".to_owned(), encoding: Encoding::Hex, inside: Vec::new(), part: Part::Body };
    let mut hit = Hit::new(7, 5, Protocol::Http, "a.redroom.test".into(), ([203, 0, 113, 99], 8080).into(), true);
    hit.secrets = vec![proof.clone()];
    hit.body = "still there, and 203.0.113.99 too".into();
    let redactor = Redactor::new(["203.0.113.99"]);
    let redacted = redactor.value(hit);
    assert!(!serde_json::to_string(&redacted).unwrap().contains("203.0.113"), "{redacted:?}");
    assert_eq!((redacted.id, redacted.at_ms, redacted.blocked, redacted.secrets), (7, 5, true, vec![proof]));
    assert!(redacted.fault.unwrap().contains("[redacted]"));
}

#[test]
fn a_field_is_never_lost_because_its_name_was_redacted() {
    let mut hit = Hit::new(7, 5, Protocol::Https, "a.redroom.test".into(), ([203, 0, 113, 99], 443).into(), true);
    hit.server_name = Some("a server_name".to_owned());
    let redacted = Redactor::new(["server_name"]).value(hit);
    assert_eq!(redacted.server_name.as_deref(), Some("a [redacted]"));
}

#[test]
fn keys_that_only_a_held_value_told_apart_stay_several() {
    let call = tool_call(json!({ "12345678": 1, "MTIzNDU2Nzg=": 2 }));
    let redacted = Redactor::new(["12345678"]).value(call);
    assert_eq!(redacted.input.as_object().unwrap().len(), 2, "{}", redacted.input);
}

#[test]
fn an_answer_that_was_json_is_json_over_all_its_lines() {
    let redactor = Redactor::new(["12345678"]);
    let answer = redactor.answer(Bytes::from_static(b"{\n  \"reason\": \"no 12345678\",\n  \"n\": 12345678\n}"));
    let read: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(read, json!({ "reason": "no [redacted]", "n": "[redacted]" }));
    assert_eq!(redactor.answer(Bytes::from_static(b"{ nothing")), "{ nothing");
    assert_eq!(redactor.answer(Bytes::from_static(b"{ 12345678")), "{ [redacted]");
}

fn tool_call(input: serde_json::Value) -> RecordedToolCall {
    let ruling = Ruling {
        answer: Bytes::new(),
        decision: RecordedDecision::Allow,
        reason: None,
        updated_input: None,
        ends_turn: false,
        unheard: None,
        checked: false,
        error: None,
        latency: Duration::ZERO,
    };
    RecordedToolCall { input, ..RecordedToolCall::new(0, None, ruling, b"") }
}

#[test]
fn a_debug_form_shows_no_value_and_short_values_are_left_alone() {
    assert!(!format!("{:?}", redactor()).contains("held"));
    assert_eq!(redactor().text("a short text".to_owned()), "a short text");
    assert!(Redactor::new(["short", "", "       x       "]).0.is_none());
}

#[test]
fn the_password_of_basic_credentials_is_held_by_itself() {
    let redactor = Redactor::new(["Basic dXNlcjpwYXNzd29yZC0xMjM0"]);
    assert_eq!(redactor.text("it was password-1234".to_owned()), "it was [redacted]");
}

#[test]
fn a_document_over_several_lines_stays_one() {
    let redactor = Redactor::new(["12345678"]);
    let text = redactor.text("{\n  \"n\": 12345678,\n  \"12345678\": [\"x 12345678\"]\n}\n".to_owned());
    assert_eq!(text, "{\n  \"n\": \"[redacted]\",\n  \"[redacted]\": [\"x [redacted]\"]\n}\n");
}

#[test]
fn names_that_were_told_apart_by_what_is_held_stay_several_in_text_too() {
    let redactor = Redactor::new(["12345678"]);
    let text = redactor.text(r#"{"12345678":1,"MTIzNDU2Nzg=":2,"[redacted]":3,"a":{"12345678":4}}"#.to_owned());
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read.as_object().unwrap().len(), 4, "{text}");
}

/// As many members in as many places, whatever they are.
fn shape(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(fields) => {
            let mut members: Vec<Value> = fields.values().map(shape).collect();
            members.sort_by_key(Value::to_string);
            json!({ "members": members })
        }
        _ => Value::Null,
    }
}

fn held_values() -> impl Strategy<Value = Vec<String>> {
    // What headers can carry, with whatever JSON escapes or numbers are made of.
    let value =
        prop_oneof!["[a-zA-Z0-9]{8,20}", "[0-9]{8,16}", "[a-z\"\\\\/+=_.-]{8,16}", "[\u{e9}\u{1f40d}a-z]{8,12}"];
    prop::collection::vec(value, 1..4)
}

/// Documents that hold the values, as they are and in disguise, in texts, names and numbers.
fn documents(held: Vec<String>) -> impl Strategy<Value = (Vec<String>, Value)> {
    let told: Vec<String> = held
        .iter()
        .flat_map(|value| {
            [
                value.clone(),
                hex(value),
                percent(value),
                STANDARD.encode(value),
                json!(value).to_string(),
                value.to_uppercase(),
            ]
        })
        .collect();
    let text = (prop::sample::select(told), "\\PC{0,6}", "\\PC{0,6}", any::<bool>())
        .prop_map(|(value, before, after, alone)| if alone { value } else { format!("{before}{value}{after}") });
    let text = prop_oneof![text, "\\PC{0,12}"].boxed();
    let numbers: Vec<u64> = held.iter().filter_map(|value| value.parse().ok()).chain([7]).collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(numbers).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    let document = leaf.prop_recursive(4, 40, 5, move |inner| {
        let members = prop::collection::btree_map(text.clone(), inner.clone(), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    document.prop_map(move |document| (held.clone(), document))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_json_stays_json_of_the_same_shape_and_holds_nothing(
        (held, document) in held_values().prop_flat_map(documents), pretty: bool,
    ) {
        let document = json!([document]);
        let text = if pretty { serde_json::to_string_pretty(&document).unwrap() } else { document.to_string() };
        let redactor = Redactor::new(held.iter().map(String::as_str));
        let redacted = redactor.text(text.clone());
        let read: Value = serde_json::from_str(&redacted).expect(&redacted);
        prop_assert!(!redactor.finds(redacted.as_bytes()), "{} -> {}", text, redacted);
        prop_assert_eq!(shape(&read), shape(&document), "{} -> {}", text, redacted);
        let answer = redactor.answer(Bytes::from(text.clone()));
        let read: Value = serde_json::from_slice(&answer).unwrap();
        prop_assert_eq!(shape(&read), shape(&document));
    }

    #[test]
    fn a_stream_cut_anywhere_comes_to_the_same_as_its_whole(
        (held, document) in held_values().prop_flat_map(documents), cuts in prop::collection::vec(1..200_usize, 1..20),
    ) {
        let redactor = Redactor::new(held.iter().map(String::as_str));
        let line = format!("{document}\n");
        let stream = line.repeat(1 + 80_000 / line.len());
        let (mut redaction, mut redacted) = (redactor.stream(), Vec::new());
        let (mut rest, mut cuts) = (stream.as_bytes(), cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            redaction.feed(chunk, |bytes| redacted.extend_from_slice(bytes));
            rest = after;
        }
        redaction.end(|bytes| redacted.extend_from_slice(bytes));
        prop_assert!(!redactor.finds(&redacted));
        prop_assert_eq!(redacted.iter().filter(|byte| **byte == b'\n').count(), stream.lines().count());
    }
}

#[test]
fn a_value_that_begins_where_a_crowd_of_others_ends_is_not_cut_in_two() {
    let redactor = Redactor::new(["aaaaaaaa", "tok-8842-aaab"]);
    // So many that overlap each other that there is no place between two to cut at.
    let crowd = vec![b'a'; WINDOW + WIDEST * "tok-8842-aaab".len() + 64 - 3];
    let mut redaction = redactor.stream();
    let mut redacted = Vec::new();
    for chunk in [&crowd[..], b"tok-88", b"42-aaab and more"] {
        redaction.feed(chunk, |piece| redacted.extend_from_slice(piece));
    }
    redaction.end(|piece| redacted.extend_from_slice(piece));
    assert!(!redactor.finds(&redacted), "{}", redacted.escape_ascii());
    assert!(redacted.ends_with(b" and more"));
}

#[test]
fn a_character_that_a_window_cuts_behind_a_crowd_stays_whole() {
    let redactor = Redactor::new(["aaaaaaaa"]);
    let crowd = vec![b'a'; WINDOW + WIDEST * "aaaaaaaa".len() + 64];
    let (first, second) = "é".as_bytes().split_at(1);
    let mut redaction = redactor.stream();
    let mut redacted = Vec::new();
    for chunk in [&[&crowd, first].concat(), second] {
        redaction.feed(chunk, |piece| redacted.extend_from_slice(piece));
    }
    redaction.end(|piece| redacted.extend_from_slice(piece));
    assert_eq!(String::from_utf8(redacted).unwrap(), "[redacted]é");
}
