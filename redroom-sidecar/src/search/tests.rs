//! What the search has to find, and what it must not.

mod containers;
mod forms;
mod numbers;
mod properties;
mod speed;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::Encoding::{
    self, Base32, Base64, CaseInsensitive, Decimal, Hex, Octal, Plain, Reversed, Rot13, Url, Utf16, Utf32,
};
use super::{SecretSet, find_secrets, redact_secrets};

const SECRET: &str = "PLATYPUS-7731";

/// What is found of one secret; the same for every cut of the text into two chunks, and for single bytes.
fn found(secret: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Vec<Encoding> {
    let set = SecretSet::new([("it", secret)]);
    let text = text.as_ref();
    let whole = set.search(text);
    assert!(whole.iter().all(|found| found.inside.is_empty()), "{whole:?}");
    let chunkings = (0..=text.len()).map(|cut| vec![&text[..cut], &text[cut..]]);
    for chunks in chunkings.take(400).chain([text.chunks(1).collect()]) {
        let mut scanner = set.scanner();
        chunks.iter().for_each(|chunk| scanner.feed(chunk));
        assert_eq!(
            scanner.finish().matches,
            whole,
            "cut into {:?}",
            chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>()
        );
    }
    let mut encodings: Vec<_> = whole.into_iter().map(|found| found.encoding).collect();
    encodings.sort();
    encodings
}

fn wrapped(text: &str, columns: usize, line_end: &str) -> String {
    let lines: Vec<_> = text.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(line_end)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base32 by the book: five bits after the other.
fn base32(alphabet: &[u8; 32], bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let value = |five: &[u8]| (0..5).fold(0, |value, at| value << 1 | five.get(at).copied().unwrap_or_default());
    bits.chunks(5).map(|five| char::from(alphabet[usize::from(value(five))])).collect()
}

const STANDARD_32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX_32: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";

/// The lines of a private key: 4 KiB of letters that look like chance.
fn private_key() -> String {
    let mut state = 7_u32;
    let body: String = (0..4096)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 26) as usize])
        })
        .collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", wrapped(&body, 64, "\n"))
}

#[test]
fn nothing_is_found_in_nothing() {
    assert!(SecretSet::new([("empty", ""), ("blank", " \n")]).is_empty());
    assert_eq!(find_secrets("anything at all", [("empty", "")]), []);
    assert_eq!(found(SECRET, ""), []);
    assert_eq!(found(SECRET, "PLATYPUS-773 PLATYPUS-7732 LATYPUS-7731"), []);
}

#[test]
fn secrets_that_overlap_are_all_found() {
    let secrets =
        [("long", "token-abcdefgh-12345678"), ("inner", "abcdefgh"), ("tail", "12345678"), ("next", "345678-zzzz")];
    let text = "token-abcdefgh-12345678-zzzz";
    let names = |text: &str| find_secrets(text, secrets).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(text), ["inner", "long", "next", "tail"]);
    assert_eq!(names(&hex(text.as_bytes())), ["inner", "long", "next", "tail"]);
    assert_eq!(names(&STANDARD.encode(text)), ["inner", "long", "next", "tail"]);
}

#[test]
fn equal_values_are_found_under_each_name() {
    let secrets = [("a", "same-value"), ("b", "same-value"), ("c", "SAME-value")];
    assert_eq!(
        find_secrets("same-value", secrets),
        [("a".into(), Plain), ("b".into(), Plain), ("c".into(), CaseInsensitive)]
    );
}

#[test]
fn neighbours_in_value_are_told_apart_in_every_encoding() {
    let secrets = [("one", "PLATYPUS-7731"), ("two", "PLATYPUS-7732"), ("zero", "QLATYPUS-7731")];
    for padding in ["", "a", "ab"] {
        let text = format!("{padding}PLATYPUS-7731");
        assert_eq!(find_secrets(STANDARD.encode(&text), secrets), [("one".into(), Base64)]);
        assert_eq!(find_secrets(hex(text.as_bytes()), secrets), [("one".into(), Hex)]);
    }
    for padding in ["", "a", "ab", "abc", "abcd"] {
        let text = format!("{padding}PLATYPUS-7731");
        assert_eq!(find_secrets(base32(STANDARD_32, text.as_bytes()), secrets), [("one".into(), Base32)]);
    }
}

#[test]
fn a_match_is_told_once_with_its_first_end() {
    let text = format!("a {SECRET} b {SECRET} c {}", hex(SECRET.as_bytes()));
    let matches = SecretSet::new([("it", SECRET)]).search(text.as_bytes());
    assert_eq!(
        matches.iter().map(|found| (found.encoding, found.offset)).collect::<Vec<_>>(),
        [(Plain, 15), (Hex, 60)]
    );
}

#[test]
fn a_match_shows_before_the_stream_ends() {
    let mut scanner = SecretSet::new([("it", SECRET)]).scanner();
    scanner.feed(b"PLATYPUS");
    assert!(scanner.matches().is_empty());
    scanner.feed(b"-7731");
    assert_eq!(scanner.matches().len(), 1);
}

#[test]
fn a_thousand_secrets_are_told_apart() {
    let secrets: Vec<_> = (0..1000).map(|n| (format!("s{n}"), format!("token-{:08x}-{n:04}", n * 1_654_435))).collect();
    let set = SecretSet::new(secrets.clone());
    for (name, value) in secrets.iter().step_by(97) {
        for (text, encoding) in [
            (value.clone(), Plain),
            (value.to_uppercase(), CaseInsensitive),
            (value.replace('-', "%2D"), Url),
            (hex(value.as_bytes()), Hex),
            (URL_SAFE_NO_PAD.encode(format!("x{value}y")), Base64),
        ] {
            let matches = set.search(text.as_bytes());
            assert_eq!(matches.len(), 1, "{text}: {matches:?}");
            assert_eq!((&*matches[0].secret, matches[0].encoding), (&**name, encoding));
        }
    }
}

#[test]
fn debug_output_shows_no_secret() {
    let set = SecretSet::new([("name", SECRET)]);
    let mut scanner = set.scanner();
    scanner.feed(SECRET.as_bytes());
    // Whole, because a derived form would show the value byte by byte, as numbers.
    assert_eq!(format!("{set:?}"), "SecretSet { secrets: 1, .. }");
    assert_eq!(format!("{scanner:?}"), "Scanner { matches: 1, .. }");
    let told = format!("{:?}", scanner.matches());
    assert!(told.contains("name") && !told.contains("PLATYPUS"), "{told}");
}

#[test]
fn a_dns_name_is_searched_with_dots_and_joined() {
    let set = SecretSet::new([("it", SECRET)]);
    let search = |name: &str| {
        let labels: Vec<_> = name.split('.').collect();
        set.search_name(&labels).matches.into_iter().map(|found| found.encoding).collect::<Vec<_>>()
    };
    assert_eq!(search("PLATYPUS-7731.t.redroom.test"), [Plain]);
    assert_eq!(search("platypus-7731.t.redroom.test"), [CaseInsensitive]);
    assert_eq!(search("platy.pus-77.31.t.redroom.test"), [CaseInsensitive]);
    assert_eq!(search("504c41545950555.32d37373331.t.redroom.test"), [Hex], "cut in the middle of a pair");
    assert_eq!(search("504c4154595055532d37.373331.t.redroom.test"), [Hex]);
    assert_eq!(search("UExBVFlQV.VMtNzczMQ.t.redroom.test"), [Base64]);
    let base32 = base32(STANDARD_32, format!("TOKEN={SECRET}\n").as_bytes()).to_lowercase();
    assert_eq!(search(&format!("{}.{}.t.redroom.test", &base32[..11], &base32[11..])), [Base32]);
    assert_eq!(search("docs.redroom.test"), []);
}

mod redaction {
    use super::*;

    #[test]
    fn every_encoding_is_replaced() {
        let base64 = STANDARD.encode(format!("TOKEN={SECRET}\n"));
        let text = format!("a {SECRET} b platypus-7731 c PLATYPUS%2d7731 d {} e {base64}", hex(SECRET.as_bytes()));
        let redacted = redact_secrets(&text, [SECRET]);
        assert_eq!(find_secrets(&redacted, [("it", SECRET)]), []);
        assert!(redacted.starts_with("a [redacted] b [redacted] c [redacted] d [redacted] e VE9LRU49"), "{redacted}");
    }

    #[test]
    fn longer_values_go_before_their_parts() {
        assert_eq!(
            redact_secrets("x abcdefgh-12345678 y abcdefgh z", ["abcdefgh", "abcdefgh-12345678"]),
            "x [redacted] y [redacted] z"
        );
        assert_eq!(redact_secrets("<abcdefghijklmnop>", ["abcdefghijk", "fghijklmnop"]), "<[redacted]>");
        assert_eq!(redact_secrets("abcdefghabcdefgh", ["abcdefgh"]), "[redacted][redacted]");
    }

    #[test]
    fn text_without_secrets_stays_as_it_is() {
        for text in ["", "caf\u{e9} \\u00e9 %41 \u{1f600}", "{\"a\": 1}"] {
            assert_eq!(redact_secrets(text, [SECRET]), text);
            assert_eq!(redact_secrets(text, [""]), text);
        }
    }

    #[test]
    fn json_stays_json() {
        let value = "n\"ew\\line\n\u{1f600}12345678";
        let documents = [
            (serde_json::json!({"a": value, "b": [value, 1]}).to_string(), value),
            (r#"{"a": "\ud83d\ude00n\"ew\\line\n\ud83d\ude0012345678\ud83d\ude00"}"#.to_owned(), value),
            (r#"{"a": "\nsecret12"}"#.to_owned(), "nsecret12"),
            (r#"{"a": "\u00e9-secret1"}"#.to_owned(), "e9-secret1"),
            (r#"{"a": "secret12\"quoted"}"#.to_owned(), "secret12\\"),
            (r#"{"pin": 12345678, "more": [1234567890]}"#.to_owned(), "12345678"),
            (r#"{"pin": {"a": 1, "b": 2}}"#.to_owned(), r#""a": 1, "b""#),
            ("{\"a\":\"secret12\"}\n{\"a\":12345678}\n".to_owned(), "12345678"),
        ];
        for (text, value) in documents {
            let redacted = redact_secrets(&text, [value]);
            let valid =
                serde_json::Deserializer::from_str(&redacted).into_iter::<serde_json::Value>().all(|v| v.is_ok());
            assert!(valid, "{text} -> {redacted}");
            assert!(redacted.contains("[redacted]"), "{text} -> {redacted}");
            assert_eq!(find_secrets(&redacted, [("it", value)]), [], "{text} -> {redacted}");
        }
        assert_eq!(
            redact_secrets(r#"{"pin": 12345678, "b": "x 12345678"}"#, ["12345678"]),
            r#"{"pin": "[redacted]", "b": "x [redacted]"}"#
        );
    }

    #[test]
    fn a_long_key_is_replaced_quickly_enough() {
        let key = private_key();
        let text = format!("{}\n{}", STANDARD.encode(&key), serde_json::json!(key));
        let redacted = redact_secrets(&text, [&key]);
        assert!(redacted.len() < 64, "{redacted}");
    }
}
