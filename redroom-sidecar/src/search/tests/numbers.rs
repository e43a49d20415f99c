//! Numbers and words of numbers: in lists, as escapes, in dumps.

use super::*;

fn numbers(text: &[u8], number: impl Fn(u8) -> String, separator: &str) -> String {
    text.iter().map(|byte| number(*byte)).collect::<Vec<_>>().join(separator)
}

#[test]
fn lists_of_numbers_are_found_in_decimal_and_octal() {
    for separator in [" ", ",", ", ", ";", "\n", "  ", "\t", "-", ".", "', '", ",\r\n  "] {
        for (before, after) in [("", ""), ("[", "]"), ("b = {7, ", ", 256}"), ("0 ", " 0"), ("x=1000,", ",")] {
            let decimal = numbers(SECRET.as_bytes(), |byte| byte.to_string(), separator);
            assert_eq!(found(SECRET, format!("{before}{decimal}{after}")), [Decimal], "{decimal}");
            let padded = numbers(SECRET.as_bytes(), |byte| format!("{byte:03}"), separator);
            assert_eq!(found(SECRET, format!("{before}{padded}{after}")), [Decimal], "{padded}");
            let octal = numbers(SECRET.as_bytes(), |byte| format!("{byte:03o}"), separator);
            assert_eq!(found(SECRET, format!("{before}{octal}{after}")), [Octal], "{octal}");
            let python = numbers(SECRET.as_bytes(), |byte| format!("0o{byte:o}"), separator);
            assert_eq!(found(SECRET, format!("{before}{python}{after}")), [Octal], "{python}");
        }
    }
    assert_eq!(found(SECRET, numbers(b"platypus-7731", |byte| byte.to_string(), " ")), [Decimal]);
    let json = serde_json::json!({ "codes": SECRET.as_bytes() }).to_string();
    assert_eq!(found(SECRET, serde_json::json!({ "text": json }).to_string()), [Decimal]);
    for escaped in [
        numbers(SECRET.as_bytes(), |byte| format!("\\{byte:o}"), ""),
        numbers(SECRET.as_bytes(), |byte| format!("\\0{byte:o}"), ""),
    ] {
        assert_eq!(found(SECRET, &escaped), [Octal], "{escaped}");
        assert_eq!(found(SECRET, serde_json::json!({ "text": escaped }).to_string()), [Octal], "{escaped}");
    }
    let form: String = url::form_urlencoded::byte_serialize(json.as_bytes()).collect();
    assert_eq!(found(SECRET, format!("codes={form}")), [Decimal]);
}

#[test]
fn other_numbers_are_no_bytes() {
    let decimal = numbers(SECRET.as_bytes(), |byte| byte.to_string(), " ");
    let last = decimal.rsplit_once(' ').unwrap().0;
    for text in [
        last.to_owned(),
        format!("{last} 4"),
        format!("{last} x49"),
        last.replacen(' ', " 300 ", 1) + " 49",
        last.replacen(' ', "a", 1) + " 49",
        decimal.replace(' ', ""),
        // Eights and nines are no octal digits.
        numbers(SECRET.as_bytes(), |byte| format!("{byte:03o}"), " ").replacen("120", "118", 1),
    ] {
        assert_eq!(found(SECRET, &text), [], "{text}");
    }
}

/// A dump as `od` and `hexdump` write it: so many bytes a line, in words of so many, each of them by `word`.
fn dump(content: &[u8], address: bool, size: usize, word: impl Fn(&[u8]) -> String) -> String {
    let lines = content.chunks(16).enumerate().map(|(number, row)| {
        let words: Vec<_> = row.chunks(size).map(&word).collect();
        let address = if address { format!("{:07o}", number * 16) } else { String::new() };
        format!("{address} {}\n", words.join(" "))
    });
    let end = if address { format!("{:07o}\n", content.len()) } else { String::new() };
    lines.chain([end]).collect()
}

/// The number that a word's bytes are, the lowest first.
fn little_endian(word: &[u8]) -> u32 {
    word.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[test]
fn dumps_of_numbers_and_words_are_found_across_their_lines() {
    for before in ["", "A", "AB", "ABC", "API=xy12345\nAP"] {
        let content = format!("{before}I_TOKEN={SECRET}\n0123456789\n");
        let content = content.as_bytes();
        for address in [true, false] {
            for (dump, encoding) in [
                (dump(content, address, 1, |byte| format!("{:3}", byte[0])), Decimal),
                (dump(content, address, 1, |byte| format!("{:03o}", byte[0])), Octal),
                (dump(content, address, 2, |word| format!("{:06o}", little_endian(word))), Octal),
                (dump(content, address, 2, |word| format!("{:04x}", little_endian(word))), Hex),
                (dump(content, address, 4, |word| format!("{:08X}", little_endian(word))), Hex),
            ] {
                let escaped = serde_json::json!({ "out": dump }).to_string();
                let echoed = dump.replace('\n', " ");
                for text in [dump.clone(), dump.replace('\n', "\r\n"), echoed, escaped, dump.trim_end().to_owned()] {
                    let matches = found(SECRET, &text);
                    assert!(matches.contains(&encoding), "{matches:?} in {text}");
                }
                let other = format!("{before}I_TOKEN=PLATYPUS-7732\n");
                assert_eq!(find_secrets(&dump, [("it", &other)]), [], "{dump}");
            }
        }
    }
}
