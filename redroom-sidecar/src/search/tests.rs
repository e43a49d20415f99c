use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use proptest::prelude::*;

use super::*;

const TOKEN: &str = "PLATYPUS-7731";

fn found(stream: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<Encoding> {
    let stream = stream.as_ref();
    let set = SecretSet::new([("token", value.as_ref())]);
    let mut whole: Vec<Encoding> = set.search(stream).iter().map(|found| found.encoding).collect();
    whole.sort();
    let mut bytewise = set.scanner();
    for byte in stream {
        bytewise.feed(std::slice::from_ref(byte));
    }
    let mut cut: Vec<Encoding> = bytewise.finish().iter().map(|found| found.encoding).collect();
    cut.sort();
    assert_eq!(whole, cut, "the cut of the chunks must not matter");
    whole
}

fn hex(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wrapped(text: &str, columns: usize, end: &str) -> String {
    text.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(end)
}

#[test]
fn each_disguise_is_named_and_none_is_named_for_another() {
    let b64 = STANDARD.encode(format!("API_TOKEN={TOKEN}\n"));
    for (stream, expected) in [
        (format!("a {TOKEN} b"), vec![Encoding::Plain]),
        (TOKEN.to_lowercase(), vec![Encoding::CaseInsensitive]),
        (format!("{TOKEN} {}", TOKEN.to_lowercase()), vec![Encoding::Plain, Encoding::CaseInsensitive]),
        ("PLATYPUS%2D7731".to_owned(), vec![Encoding::Url]),
        ("%50%4c%41%54%59%50%55%53%2d%37%37%33%31".to_owned(), vec![Encoding::Url]),
        (hex(TOKEN.as_bytes()), vec![Encoding::Hex]),
        (hex(TOKEN.as_bytes()).to_uppercase(), vec![Encoding::Hex]),
        (b64.clone(), vec![Encoding::Base64]),
        ("PLATYPUS-7732".to_owned(), vec![]),
        ("PLATYPUS 7731".to_owned(), vec![]),
        (format!("PLATYPUS-%37731{}", ""), vec![Encoding::Url]),
    ] {
        assert_eq!(found(&stream, TOKEN), expected, "{stream}");
    }
}

#[test]
fn base64_is_found_at_every_offset_in_both_alphabets_wrapped_or_not() {
    let secret = "p/ssw?rd~>>with<~every?sixbit-letter~~~";
    for before in 0..4 {
        for after in 0..4 {
            let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(after));
            for encoded in [
                STANDARD.encode(&text),
                STANDARD_NO_PAD.encode(&text),
                URL_SAFE.encode(&text),
                URL_SAFE_NO_PAD.encode(&text),
            ] {
                for stream in [
                    encoded.clone(),
                    wrapped(&encoded, 76, "\n"),
                    wrapped(&encoded, 19, "\r\n"),
                    serde_json::to_string(&wrapped(&encoded, 19, "\n")).unwrap(),
                    percent_encode(encoded.as_bytes(), NON_ALPHANUMERIC).to_string(),
                    percent_encode(wrapped(&encoded, 19, "\r\n").as_bytes(), NON_ALPHANUMERIC).to_string(),
                ] {
                    assert_eq!(found(&stream, secret), [Encoding::Base64], "{before} {after} {stream}");
                }
            }
        }
    }
}

#[test]
fn hex_is_found_with_the_separators_that_tools_write() {
    let digits = hex(TOKEN.as_bytes());
    let pairs: Vec<&str> = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
    for stream in [
        wrapped(&digits, 10, "\n"),
        wrapped(&digits, 15, "\n"),
        pairs.join(":"),
        pairs.join(" "),
        pairs.join("-"),
        pairs.iter().map(|pair| format!("\\x{pair}")).collect(),
        pairs.iter().map(|pair| format!("0x{pair}, ")).collect(),
        serde_json::to_string(&wrapped(&digits, 8, "\n")).unwrap(),
    ] {
        assert_eq!(found(&stream, TOKEN), [Encoding::Hex], "{stream}");
    }
}

#[test]
fn a_hex_digit_zero_at_the_very_end_counts() {
    let secret = "ends in a null nibble: p";
    assert!(hex(secret.as_bytes()).ends_with('0'));
    assert_eq!(found(hex(secret.as_bytes()), secret), [Encoding::Hex]);
    assert_eq!(found(format!("{}}}", hex(secret.as_bytes())), secret), [Encoding::Hex]);
}

#[test]
fn json_escapes_hide_nothing() {
    let key = "-----BEGIN KEY-----\nab\"c\\d/é\u{1f980}\t-----END KEY-----\n";
    let json = serde_json::json!({ "content": key }).to_string();
    assert_eq!(found(&json, key), [Encoding::Plain]);
    let escaped: String = key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    assert_eq!(found(&escaped, key), [Encoding::Plain]);
}

#[test]
fn a_secret_with_signs_of_its_own_is_found_in_a_form() {
    let secret = "a+b c%d=é&f";
    for form in [
        percent_encode(secret.as_bytes(), NON_ALPHANUMERIC).to_string(),
        percent_encode(secret.as_bytes(), NON_ALPHANUMERIC).to_string().replace("%20", "+"),
    ] {
        assert_eq!(found(&form, secret), [Encoding::Url], "{form}");
    }
    assert_eq!(found(secret, secret), [Encoding::Plain]);
}

#[test]
fn overlapping_secrets_are_each_found() {
    let set = SecretSet::new([
        ("whole", "abcdefgh-ijklmnop"),
        ("part", "defgh-ij"),
        ("next", "mnop1234"),
        ("same", "defgh-ij"),
    ]);
    let names: Vec<String> =
        set.search(b"abcdefgh-ijklmnop1234").iter().map(|found| found.secret.to_string()).collect();
    assert_eq!(names, ["part", "same", "whole", "next"]);
}

#[test]
fn a_long_name_in_one_stream_is_found_once() {
    let set = SecretSet::new([("token", TOKEN)]);
    assert_eq!(set.search(format!("{TOKEN}{TOKEN}{TOKEN}").as_bytes()).len(), 1);
}

#[test]
fn a_name_is_searched_over_its_label_ends() {
    let set = SecretSet::new([("token", "a secret that is too long for one label of a name")]);
    let digits = hex(b"a secret that is too long for one label of a name");
    let name = format!("{}.{}.t.redroom.test", &digits[..60], &digits[60..]);
    let found: Vec<Encoding> = set.search_name(name.as_bytes()).iter().map(|found| found.encoding).collect();
    assert_eq!(found, [Encoding::Hex]);
}

#[test]
fn a_thousand_secrets_are_told_apart() {
    let secrets: Vec<(String, String)> = (0..1000).map(|n| (format!("s{n}"), format!("canary-{n:06}-value"))).collect();
    let set = SecretSet::new(secrets.iter().map(|(name, value)| (name, value)));
    for (name, value) in secrets.iter().step_by(97) {
        let matches = set.search(STANDARD.encode(format!("--{value}")).as_bytes());
        assert_eq!(matches.len(), 1);
        assert_eq!(&*matches[0].secret, name);
    }
}

#[test]
fn no_secret_at_all_finds_nothing() {
    assert!(SecretSet::new::<&str, &str>([]).search(b"anything").is_empty());
    assert!(SecretSet::new([("empty", "")]).search(b"anything").is_empty());
}

/// One way to write a value down.
fn encoded(value: &[u8], way: u8, before: &[u8], after: &[u8]) -> (Vec<u8>, Encoding) {
    let around = |middle: Vec<u8>| [before, &middle, after].concat();
    match way {
        0 => (around(value.to_vec()), Encoding::Plain),
        1 => (around(hex(value).into_bytes()), Encoding::Hex),
        2 => (around(value.iter().flat_map(|byte| format!("%{byte:02X}").into_bytes()).collect()), Encoding::Url),
        _ => (STANDARD.encode(around(value.to_vec())).into_bytes(), Encoding::Base64),
    }
}

proptest! {
    #[test]
    fn what_was_hidden_is_found_wherever_it_was_and_however_it_was_cut(
        value in proptest::collection::vec(any::<u8>(), 8..40),
        way in 0u8..4,
        before in "[a-zA-Z=&{\": ]{0,30}",
        after in "[g-zG-Z=&{\": ]{0,30}",
        cut in 1usize..20,
    ) {
        // Neighbours that are digits or escapes themselves would be part of another reading.
        let before = format!("{before}|");
        let after = format!("|{after}");
        let (stream, encoding) = encoded(&value, way, before.as_bytes(), after.as_bytes());
        let set = SecretSet::new([("token", &value)]);
        let mut scanner = set.scanner();
        for chunk in stream.chunks(cut) {
            scanner.feed(chunk);
        }
        let found: Vec<Encoding> = scanner.finish().iter().map(|found| found.encoding).collect();
        prop_assert!(found.contains(&encoding), "{found:?}");
    }

    #[test]
    fn noise_holds_nothing(noise in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let set = SecretSet::new([("token", "a value that noise does not hold")]);
        prop_assert!(set.search(&noise).is_empty());
    }
}
