//! Secrets taken out of text: none is left, JSON stays JSON, and what holds none stays as it is.

use serde_json::Value;

use super::draw::Draw;
use super::search::{disguised, secret};
use crate::search::{SecretSet, redact_secrets};

pub(super) fn run(data: &[u8]) {
    let mut draw = Draw::new(data);
    let secrets: Vec<String> = (0..=draw.below(3)).map(|_| secret(&mut draw)).collect();
    let standing = &secrets[draw.below(secrets.len())];
    alone(standing);
    let disguised = disguised(&mut draw, standing).text;
    let standing = String::from_utf8_lossy(&disguised).into_owned();
    let as_json = draw.below(2) == 1;
    let before = String::from_utf8_lossy(draw.take(60)).into_owned();
    let after = String::from_utf8_lossy(draw.rest()).into_owned();
    let text = match as_json {
        false => format!("{before}{standing}{after}"),
        true => {
            serde_json::json!({ &before: [&standing, 7731], "after": { &after: format!("{before}{standing}{after}") } })
                .to_string()
        }
    };
    let set = SecretSet::new(secrets.iter().map(|secret| ("", secret)));
    let redacted = redact_secrets(&text, &secrets);
    assert_eq!(redacted, set.redact(&text));
    if !set.is_in_text(text.as_bytes()) {
        assert_eq!(redacted, text);
    }
    assert!(!set.is_in_text(redacted.as_bytes()), "{secrets:?} in {redacted:?}, which was {text:?}");
    if serde_json::from_str::<Value>(&text).is_ok_and(|json| json.is_object() || json.is_array()) {
        assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{redacted:?}, which was {text:?}");
    }
}

/// All of the secret goes, and nothing that is far from it; in JSON with all the escapes that it is written with.
fn alone(secret: &str) {
    // What is right beside it may go as well: where escapes are taken away, a place is known to the next byte only.
    let set = SecretSet::new([("", secret)]);
    let far = |text: &str| set.redact(text).replace('~', "");
    assert_eq!(far(&format!("~~~~{secret}~~~~")), "[redacted]");
    let json = serde_json::json!([{ "k": format!("~~~~{secret}~~~~") }]).to_string();
    assert_eq!(far(&json), r#"[{"k":"[redacted]"}]"#);
}
