//! The search for secrets, against encoders and decoders that know nothing of it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::draw::{Draw, chunks};
use crate::search::Encoding::{
    self, Base32, Base64, CaseInsensitive, Decimal, Hex, Octal, Plain, Reversed, Rot13, Url, Utf16, Utf32,
};
use crate::search::{Searched, SecretSet};

pub(super) fn run(data: &[u8]) {
    let mut draw = Draw::new(data);
    let secret = secret(&mut draw);
    let disguised = disguised(&mut draw, &secret);
    let before = draw.take(120);
    let after = draw.rest();
    a_disguise_is_found(&secret, &disguised, before, after);
    overlapping_secrets_do_not_hide_each_other(&secret, &[before, &disguised.text, after].concat());
    what_a_naive_decoder_finds_is_found(data);
}

fn search(set: &SecretSet, bytes: &[u8]) -> Searched {
    let search = |chunks: Vec<&[u8]>| {
        let mut scanner = set.scanner();
        chunks.into_iter().for_each(|chunk| scanner.feed(chunk));
        scanner.finish()
    };
    let whole = search(vec![bytes]);
    assert_eq!(search(chunks(bytes)), whole, "cut anywhere");
    whole
}

/// It stands behind what no transport takes for a part of it.
fn a_disguise_is_found(secret: &str, disguised: &Disguised, before: &[u8], after: &[u8]) {
    let text = [before, b"~~~~~~~~~~~~", &disguised.text, b"~~", after].concat();
    let found = search(&SecretSet::new([("it", secret)]), &text);
    assert!(
        found.matches.iter().any(|found| found.encoding == disguised.encoding),
        "{secret:?} as {:?}: {found:?} in {}",
        disguised.encoding,
        text.escape_ascii()
    );
}

/// What is found of several secrets is what is found of each alone.
fn overlapping_secrets_do_not_hide_each_other(secret: &str, text: &[u8]) {
    let middle = secret.char_indices().nth(1).map_or(0, |(at, _)| at);
    let values = [secret.to_owned(), secret[middle..].to_owned(), secret.repeat(2), "PLATYPUS".to_owned()];
    let names = ["whole", "inner", "twice", "other"];
    let told = |set: SecretSet| -> BTreeSet<_> {
        let plainly = set.search(text).into_iter().filter(|found| found.inside.is_empty());
        plainly.map(|found| (found.secret.to_string(), found.encoding, found.offset)).collect()
    };
    let together = told(SecretSet::new(names.iter().zip(&values).map(|(name, value)| (*name, value))));
    let alone = names.iter().zip(&values).flat_map(|(name, value)| told(SecretSet::new([(*name, value)])));
    assert_eq!(together, alone.collect(), "{values:?}");
}

/// Two bytes that come by chance, in noise.
const VALUES: [&str; 4] = ["aB", "\\\"", "%+", "=7"];
static SHORT: LazyLock<SecretSet> = LazyLock::new(|| SecretSet::new(VALUES.map(|value| (value, value))));

fn what_a_naive_decoder_finds_is_found(noise: &[u8]) {
    let found: BTreeSet<(String, Encoding)> =
        search(&SHORT, noise).matches.into_iter().map(|found| (found.secret.to_string(), found.encoding)).collect();
    let decoded = [
        (Plain, vec![noise.to_vec()]),
        (Url, vec![percent(noise)]),
        (Hex, runs(noise, 2, |byte| char::from(byte).to_digit(16), 4)),
        (Base64, runs(noise, 4, |byte| digit(b"+/", byte), 6)),
        (Base64, runs(noise, 4, |byte| digit(b"-_", byte), 6)),
        (Utf16, wide(noise, 2)),
        (Utf32, wide(noise, 4)),
    ];
    for (encoding, texts) in decoded {
        for value in VALUES {
            let holds = |text: &Vec<u8>| text.windows(value.len()).any(|window| window == value.as_bytes());
            let is_there = texts.iter().any(holds);
            // Where nothing is escaped it is plain, too.
            let is_found = found.contains(&(value.to_owned(), encoding))
                || encoding == Url && found.contains(&(value.to_owned(), Plain));
            assert!(is_found || !is_there, "{value:?} as {encoding}: {found:?} in {}", noise.escape_ascii());
        }
    }
    let holds = |value: &str| noise.windows(value.len()).any(|window| window == value.as_bytes());
    let is_bare = !noise.iter().any(|byte| b"\\%=&+".contains(byte));
    for value in VALUES.iter().filter(|value| is_bare && found.contains(&((**value).to_owned(), Plain))) {
        assert!(holds(value), "{value:?} is found where nothing is escaped and it does not stand");
    }
}

/// Percent signs with two digits taken away, once.
fn percent(mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some((&byte, after)) = bytes.split_first() {
        let two = after.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit)).filter(|_| byte == b'%');
        match two.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                bytes = &after[2..];
            }
            None => {
                plain.push(byte);
                bytes = after;
            }
        }
    }
    plain
}

/// Every run of digits, decoded from each of the first digits on.
fn runs(bytes: &[u8], starts: usize, digit: impl Fn(u8) -> Option<u32>, bits: u32) -> Vec<Vec<u8>> {
    let runs = bytes.split(|byte| digit(*byte).is_none());
    let decode = |digits: &[u8]| {
        let (mut decoded, mut value, mut held) = (Vec::new(), 0_u32, 0);
        for digit in digits.iter().filter_map(|byte| digit(*byte)) {
            value = value << bits & 0xffff | digit;
            held += bits;
            if held >= 8 {
                held -= 8;
                decoded.push((value >> held) as u8);
            }
        }
        decoded
    };
    runs.flat_map(|run| (0..starts.min(run.len())).map(move |start| &run[start..])).map(decode).collect()
}

fn digit(last: &[u8; 2], byte: u8) -> Option<u32> {
    const FIRST: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    FIRST.iter().chain(last).position(|known| *known == byte).map(|at| at as u32)
}

/// What stands in units of so many bytes, in either order, from every place on: as far as it is ASCII.
fn wide(bytes: &[u8], width: usize) -> Vec<Vec<u8>> {
    let unit = |unit: &[u8], at: usize| {
        let rest_is_nothing = unit.iter().enumerate().all(|(index, byte)| index == at || *byte == 0);
        if unit[at].is_ascii() && rest_is_nothing { unit[at] } else { 0 }
    };
    let starts = (0..width.min(bytes.len())).flat_map(|start| [(start, 0), (start, width - 1)]);
    starts.map(|(start, at)| bytes[start..].chunks_exact(width).map(|chars| unit(chars, at)).collect()).collect()
}

/// A secret: one that makes trouble, or one of the fuzzer's own.
pub(super) fn secret(draw: &mut Draw<'_>) -> String {
    const TROUBLE: [&str; 9] = [
        "PLATYPUS-7731",
        "aaaaaaaa",
        "abababab",
        "a\"b\\c/d%e+f",
        "\u{e9}\u{1f600} secret=?&",
        "two\nlines of it",
        "x==%3D%3d%2541==x",
        "\\u0041\\\\n\\\"--",
        "0x41 0x42 41:42",
    ];
    match TROUBLE.get(draw.below(12)) {
        Some(secret) => (*secret).to_owned(),
        None => {
            let own: String = draw.take(24).iter().map(|byte| char::from(b'!' + byte % 94)).collect();
            format!("K{own}-4711")
        }
    }
}

/// A secret as somebody sends it.
pub(super) struct Disguised {
    pub(super) text: Vec<u8>,
    pub(super) encoding: Encoding,
}

pub(super) fn disguised(draw: &mut Draw<'_>, secret: &str) -> Disguised {
    let bytes = secret.as_bytes();
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let each = |write: &dyn Fn(u8) -> String| bytes.iter().map(|byte| write(*byte)).collect::<String>();
    let (text, encoding) = match draw.below(21) {
        0 => (secret.to_owned(), Plain),
        1 => (json(secret), Plain),
        2 => (json(&json(secret)), Plain),
        3 => (each(&|byte| format!("%{byte:02x}")), Url),
        4 => (each(&|byte| format!("%25{byte:02X}")), Url),
        5 => {
            let form: String = url::form_urlencoded::byte_serialize(bytes).collect();
            let encoding = if form == secret { Plain } else { Url };
            (form, encoding)
        }
        6 => {
            let separator = ["", ":", " ", "\\x", "0x", ", ", "\n"][draw.below(7)];
            (each(&|byte| format!("{separator}{byte:02x}")), Hex)
        }
        7 => (each(&|byte| format!("={byte:02X}")), Plain),
        8 => (secret.chars().map(|letter| format!("&#{};", u32::from(letter))).collect(), Plain),
        9 => (secret.chars().map(|letter| format!("&#x{:X};", u32::from(letter))).collect(), Plain),
        10 | 11 => {
            let text = [&b"abc"[..draw.below(4)], bytes].concat();
            let encoded = if draw.below(2) == 0 { STANDARD.encode(text) } else { URL_SAFE_NO_PAD.encode(text) };
            let line_end = ["\n", "\r\n", "\\n"][draw.below(3)];
            (wrapped(&encoded, 4 + draw.below(76), line_end), Base64)
        }
        12 => {
            let text = [&b"abcde"[..draw.below(6)], bytes].concat();
            let encoded = base32(
                &text,
                [b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHIJKLMNOPQRSTUV"][draw.below(2)],
            );
            let encoded = if draw.below(2) == 0 { encoded } else { encoded.to_lowercase() };
            (wrapped(&encoded, 8 + draw.below(72), "\n"), Base32)
        }
        13 => {
            let swap = |byte: &u8| {
                if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
            };
            let swapped: Vec<u8> = bytes.iter().map(swap).collect();
            let encoding = if swapped == bytes { Plain } else { CaseInsensitive };
            return Disguised { text: swapped, encoding };
        }
        14 => (each(&|byte| format!("{byte}, ")), Decimal),
        15 => (each(&|byte| format!("\\{byte:03o}")), Octal),
        16 => (words(bytes, draw.below(2)), Hex),
        17 => {
            let reversed: String = secret.chars().rev().collect();
            let reads_the_same = reversed.eq_ignore_ascii_case(secret);
            if reads_the_same { (secret.to_owned(), Plain) } else { (reversed, Reversed) }
        }
        18 => {
            let moved = |letter: char, first: char| char::from((letter as u8 - first as u8 + 13) % 26 + first as u8);
            let rot13: String = secret
                .chars()
                .map(|letter| match letter {
                    'a'..='z' => moved(letter, 'a'),
                    'A'..='Z' => moved(letter, 'A'),
                    other => other,
                })
                .collect();
            let encoding = if rot13 == secret { Plain } else { Rot13 };
            (rot13, encoding)
        }
        19 => {
            let little = draw.below(2) == 0;
            let units =
                secret.encode_utf16().flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
            return Disguised { text: units.collect(), encoding: Utf16 };
        }
        _ => {
            let little = draw.below(2) == 0;
            let write = |letter| if little { u32::to_le_bytes(letter) } else { u32::to_be_bytes(letter) };
            return Disguised {
                text: secret.chars().flat_map(|letter| write(letter.into())).collect(),
                encoding: Utf32,
            };
        }
    };
    Disguised { text: text.into_bytes(), encoding }
}

/// As `hexdump` writes it, behind so many other bytes.
fn words(bytes: &[u8], before: usize) -> String {
    let content = [&b"~"[..before], bytes].concat();
    let lines = content.chunks(16).enumerate().map(|(line, row)| {
        let words = row.chunks(2).map(|word| format!(" {:02x}{:02x}", word.get(1).unwrap_or(&0), word[0]));
        format!("{:07x}{}\n", line * 16, words.collect::<String>())
    });
    lines.chain([format!("{:07x}\n", content.len())]).collect()
}

fn wrapped(text: &str, columns: usize, line_end: &str) -> String {
    let lines: Vec<_> = text.as_bytes().chunks(columns).map(String::from_utf8_lossy).collect();
    lines.join(line_end)
}

/// Five bits after the other.
fn base32(bytes: &[u8], alphabet: &[u8; 32]) -> String {
    let bits: Vec<usize> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| usize::from(byte >> bit & 1))).collect();
    let value = |five: &[usize]| (0..5).fold(0, |value, at| value << 1 | five.get(at).unwrap_or(&0));
    bits.chunks(5).map(|five| char::from(alphabet[value(five)])).collect()
}
