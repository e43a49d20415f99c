//! The search against encoders that know nothing of it.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Disguise {
    Plain,
    Json,
    JsonTwice,
    Percent,
    Form,
    Hex(&'static str),
    Quoted,
    Entities,
    Decimal(&'static str),
    Octal(&'static str),
    Reversed,
    Base32 { before: usize, lower: bool, columns: usize },
    Base64 { before: usize, url_safe: bool, columns: usize, line_end: &'static str },
}

impl Disguise {
    fn apply(self, secret: &str) -> (String, Encoding) {
        let json = |text: &str| serde_json::to_string(text).unwrap();
        match self {
            Disguise::Plain => (secret.to_owned(), Plain),
            Disguise::Json => (json(secret), Plain),
            Disguise::JsonTwice => (json(&json(secret)), Plain),
            Disguise::Percent => (secret.bytes().map(|byte| format!("%{byte:02x}")).collect(), Url),
            Disguise::Form => {
                let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
                let encoding = if form == secret { Plain } else { Url };
                (form, encoding)
            }
            Disguise::Hex(separator) => (secret.bytes().map(|byte| format!("{separator}{byte:02x}")).collect(), Hex),
            Disguise::Quoted => (secret.bytes().map(|byte| format!("={byte:02X}")).collect(), Plain),
            Disguise::Entities => (secret.chars().map(|letter| format!("&#{};", u32::from(letter))).collect(), Plain),
            Disguise::Decimal(separator) => {
                (secret.bytes().map(|byte| format!("{byte}{separator}")).collect(), Decimal)
            }
            Disguise::Octal(separator) => (secret.bytes().map(|byte| format!("{separator}{byte:o}")).collect(), Octal),
            Disguise::Reversed => (secret.chars().rev().collect(), Reversed),
            Disguise::Base32 { before, lower, columns } => {
                let encoded = base32(STANDARD_32, format!("{}{secret}", &"abcd"[..before]).as_bytes());
                let encoded = if lower { encoded.to_lowercase() } else { encoded };
                (wrapped(&encoded, columns, "\n"), Base32)
            }
            Disguise::Base64 { before, url_safe, columns, line_end } => {
                let text = format!("{}{secret}", "abc".split_at(before).0);
                let encoded = if url_safe { URL_SAFE_NO_PAD.encode(text) } else { STANDARD.encode(text) };
                (wrapped(&encoded, columns, line_end), Base64)
            }
        }
    }
}

fn disguise() -> impl Strategy<Value = Disguise> {
    prop_oneof![
        Just(Disguise::Plain),
        Just(Disguise::Json),
        Just(Disguise::JsonTwice),
        Just(Disguise::Percent),
        Just(Disguise::Form),
        Just(Disguise::Quoted),
        Just(Disguise::Entities),
        Just(Disguise::Reversed),
        prop::sample::select(vec![",", ", ", " ", "\n"]).prop_map(Disguise::Decimal),
        prop::sample::select(vec!["\\", "\\0", " ", ", "]).prop_map(Disguise::Octal),
        (0..5_usize, any::<bool>(), 8..80_usize).prop_map(|(before, lower, columns)| Disguise::Base32 {
            before,
            lower,
            columns
        }),
        prop::sample::select(vec!["", ":", " ", "\\x", "0x", ", ", "\n"]).prop_map(Disguise::Hex),
        (0..4_usize, any::<bool>(), 4..80_usize, prop::sample::select(vec!["\n", "\r\n", "\\n"]))
            .prop_map(|(before, url_safe, columns, line_end)| Disguise::Base64 { before, url_safe, columns, line_end }),
    ]
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9_-]{8,40}", "[!-~]{8,40}", "[!-~]{4}[ -~\n\"\\\\%+\u{e9}\u{1f600}]{1,30}[!-~]{4}"]
}

/// What surrounds a secret: it ends in something that no transport takes for a part of what follows.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        "[ -~\n]{0,200}".prop_map(String::into_bytes),
        r#"([\\%+"u0-9a-fx]|%[0-9a-f]{2}|\\u00[0-9a-f]{2}){0,60}"#.prop_map(String::into_bytes)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_disguised_secret_in_noise_is_found_in_any_chunks(
        secret in secret(),
        disguise in disguise(),
        before in noise(),
        after in noise(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (disguised, encoding) = disguise.apply(&secret);
        let text = [&before[..], b"~~~~~~~~~~~~", disguised.as_bytes(), b"~~", &after].concat();
        let set = SecretSet::new([("it", &secret)]);
        let whole = set.search(&text);
        prop_assert!(whole.iter().any(|found| found.encoding == encoding), "{secret:?} as {disguised:?}: {whole:?}");

        let cuts: BTreeSet<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
        let mut scanner = set.scanner();
        let mut start = 0;
        for cut in cuts.into_iter().chain([text.len()]) {
            scanner.feed(&text[start..cut]);
            start = cut;
        }
        prop_assert_eq!(scanner.finish().matches, whole);
    }

    #[test]
    fn a_disguise_is_not_taken_for_another(secret in "[A-Za-z0-9_-]{8,40}", disguise in disguise()) {
        let (disguised, encoding) = disguise.apply(&secret);
        prop_assert_eq!(find_secrets(format!(" {disguised} "), [("it", &secret)]), [("it".to_owned(), encoding)]);
    }

    #[test]
    fn noise_holds_no_secret(secret in "[A-Za-z0-9]{12}", noise in vec(noise(), 1..6)) {
        let noise = noise.concat();
        prop_assert_eq!(find_secrets(&noise, [("it", &secret)]), []);
        let text = String::from_utf8_lossy(&noise);
        prop_assert_eq!(redact_secrets(&text, [&secret]), text);
    }

    #[test]
    fn the_shared_probe_tells_what_separate_ones_would(text in noise(), secret in "[ab\\\\%+ \n]{1,3}") {
        // Short secrets of special bytes, so that matches and escapes meet everywhere.
        let escaped = json_by_hand(&text);
        let set = SecretSet::new([("it", &secret)]);
        let value = secret.trim_ascii();
        if !value.is_empty() {
            let expected = contains(&text, value.as_bytes()) || contains(&escaped, value.as_bytes());
            let found = set.search(&text).iter().any(|found| found.encoding == Plain);
            prop_assert!(found || !expected, "{secret:?}");
        }
    }

    #[test]
    fn redacted_text_holds_no_secret(secret in secret(), disguise in disguise(), before in "[ -~\n]{0,40}", after in "[ -~\n]{0,40}") {
        let (disguised, _) = disguise.apply(&secret);
        let redacted = redact_secrets(&format!("{before} {disguised} {after}"), [&secret]);
        prop_assert_eq!(find_secrets(&redacted, [("it", &secret)]), []);
    }

    #[test]
    fn redacted_json_is_json(parts in vec(prop_oneof![Just(None), secret().prop_map(Some)], 1..5), secret in secret(), number in any::<u32>()) {
        let texts: Vec<String> = parts.into_iter().map(|part| part.unwrap_or_else(|| format!("x{secret}y"))).collect();
        let document = serde_json::json!({"texts": texts, "number": number}).to_string();
        let redacted = redact_secrets(&document, [secret, number.to_string()]);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{document} -> {redacted}");
    }
}

fn contains(text: &[u8], value: &[u8]) -> bool {
    text.windows(value.len()).any(|window| window == value)
}

/// Takes JSON's two-byte escapes away, and `\u00XX` of ASCII.
fn json_by_hand(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let simple =
            |letter: u8| b"\"\\/bfnrt".iter().position(|&known| known == letter).map(|at| b"\"\\/\x08\x0c\n\r\t"[at]);
        if byte == b'\\' {
            if let Some(byte) = after.first().copied().and_then(simple) {
                plain.push(byte);
                rest = &after[1..];
                continue;
            }
            let digits = after.strip_prefix(b"u00").and_then(|digits| digits.get(..2));
            let code = digits
                .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
                .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
            if let Some(code) = code {
                plain.extend(char::from(code).to_string().bytes());
                rest = &after[5..];
                continue;
            }
        }
        plain.push(byte);
        rest = after;
    }
    plain
}
