//! Takes values out of text, in every form in which they would be found.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

use super::hex;

/// What stands where a value stood.
const REDACTED: &str = "[redacted]";

/// Values shorter than this, in bytes, are left alone: they would take innocent text along.
const SHORTEST: usize = 4;

/// What a lenient encoder leaves as it is.
const LENIENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'`');

/// Replaces each value in `text`, and its usual encodings, with `[redacted]`; of values that overlap, the longest. JSON text
/// stays JSON text.
///
/// ```
/// use redroom_sidecar::search::redact_secrets;
///
/// assert_eq!(redact_secrets("Bearer sk-12345678!", ["sk-12345678"]), "Bearer [redacted]!");
/// ```
pub fn redact_secrets<V: AsRef<[u8]>>(text: &str, values: impl IntoIterator<Item = V>) -> String {
    let mut forms: Vec<Vec<u8>> = values
        .into_iter()
        .filter(|value| value.as_ref().len() >= SHORTEST)
        .flat_map(|value| forms(value.as_ref()))
        .collect();
    forms.sort();
    forms.dedup();
    if forms.is_empty() {
        return text.to_owned();
    }
    // A set that cannot be compiled is too large to be held; then nothing of the text is given out.
    let Ok(patterns) = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms) else {
        return REDACTED.to_owned();
    };
    patterns.replace_all(text, &vec![REDACTED; forms.len()])
}

/// The forms of a value that an encoder would write.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let lower = hex::pattern(value);
    let mut forms = vec![value.to_vec(), lower.to_ascii_uppercase(), lower];
    forms.push(percent_encode(value, NON_ALPHANUMERIC).to_string().into_bytes());
    forms.push(percent_encode(value, LENIENT).to_string().into_bytes());
    for engine in [&STANDARD, &URL_SAFE] {
        forms.push(engine.encode(value).into_bytes());
    }
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.push(engine.encode(value).into_bytes());
    }
    if let Cow::Borrowed(text) = String::from_utf8_lossy(value)
        && let Ok(json) = serde_json::to_string(text)
    {
        forms.push(json.as_bytes()[1..json.len() - 1].to_vec());
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_in_each_of_its_forms() {
        let value = "k3y/with+\"quotes\"";
        let json = serde_json::json!({ "a": value, "b": STANDARD.encode(value) }).to_string();
        let clean = redact_secrets(&json, [value]);
        assert_eq!(clean, r#"{"a":"[redacted]","b":"[redacted]"}"#);
        let encoded = percent_encode(value.as_bytes(), NON_ALPHANUMERIC).to_string();
        assert_eq!(redact_secrets(&format!("x={encoded}&y"), [value]), "x=[redacted]&y");
    }

    #[test]
    fn of_values_that_overlap_the_longest_goes_and_text_without_any_stays() {
        assert_eq!(redact_secrets("abcdefgh abcd", ["abcd", "abcdefgh"]), "[redacted] [redacted]");
        assert_eq!(redact_secrets("nothing here", ["abcdefgh", ""]), "nothing here");
    }
}
