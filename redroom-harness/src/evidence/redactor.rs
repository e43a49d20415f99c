//! Values that this side holds and that nobody may read in what is stored or returned: headers of the model proxy and of the
//! guard, the provider's key. None of them reaches a sandbox, but a service that is asked with one may echo it.
//!
//! A value shorter than [`SHORTEST`] characters is left alone: it would be found by chance all over the evidence. Where
//! nothing is held, nothing is looked at.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redroom_sidecar::search::SecretSet;

use crate::error::Error;

mod passage;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use passage::{Disguised, Passage};
pub(crate) use value::Withhold;

use passage::Forms;

/// Values below this many characters are left alone.
const SHORTEST: usize = 8;
/// What stands for a value.
const REDACTED: &str = "[redacted]";
/// The most bytes that one byte of a value becomes in an encoding that the search knows.
const WIDEST: usize = 24;
/// How much of a stream is looked at together, beside what is kept for the next look.
const WINDOW: usize = 32 << 10;

/// Takes held values out. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    values: SecretSet,
    forms: Forms,
    /// The most bytes that a disguised value takes.
    reach: usize,
}

impl Redactor {
    /// Holds nothing.
    pub(crate) const fn idle() -> Self {
        Redactor(None)
    }

    /// Takes out the values and, where one is credentials behind a scheme (`Bearer …`), the credentials alone too.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut held: Vec<String> = values.into_iter().flat_map(parts).collect();
        held.retain(|value| value.trim().chars().nth(SHORTEST - 1).is_some());
        held.sort();
        held.dedup();
        let Some(longest) = held.iter().map(String::len).max() else { return Redactor(None) };
        let values = SecretSet::new(held.iter().map(|value| ("", value.as_bytes())));
        let forms = Forms::new(held.iter().map(String::as_str));
        Redactor(Some(Arc::new(Held { values, forms, reach: WIDEST * longest + 64 })))
    }

    /// The text without them. Each line that was JSON is JSON.
    pub(crate) fn text(&self, text: String) -> String {
        match &self.0 {
            Some(held) => held.text(&text).unwrap_or(text),
            None => text,
        }
    }

    /// The bytes without them; what holds one becomes UTF-8.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match &self.0 {
            Some(held) => held.bytes(&bytes).unwrap_or(bytes),
            None => bytes,
        }
    }

    /// An answer without them: JSON stays JSON, as a whole.
    pub(crate) fn answer(&self, answer: Bytes) -> Bytes {
        match &self.0 {
            Some(held) if held.is_in(&answer) => {
                let whole = serde_json::from_slice(&answer).map(|mut json| {
                    held.everything(&mut json);
                    json.to_string().into_bytes()
                });
                let redacted = whole.unwrap_or_else(|_| answer.to_vec());
                held.bytes(&redacted).unwrap_or(redacted).into()
            }
            Some(_) | None => answer,
        }
    }

    /// The entry without them, in every text, number and key of it; withheld where they cannot be taken out alone.
    pub(crate) fn value<T: Withhold>(&self, value: T) -> T {
        match &self.0 {
            Some(held) => value::redacted(held, value),
            None => value,
        }
    }

    /// The error without them, in its detail and in what it says of the call.
    pub(crate) fn error(&self, error: Error) -> Error {
        self.value(error)
    }

    /// Whether there is anything to take out anywhere.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the bytes hold one.
    pub(crate) fn finds(&self, bytes: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|held| held.is_in(bytes))
    }

    /// A stream's redaction on the way into a sandbox: chunks may be cut anywhere, and pass at once.
    pub(crate) fn passage(&self) -> Passage {
        Passage::new(self.0.clone())
    }

    /// A stream's redaction for the evidence: chunks may be cut anywhere.
    pub(crate) fn stream(&self) -> RedactedStream {
        RedactedStream { held: self.0.clone(), pending: Vec::new() }
    }
}

/// What of a header's value may stand elsewhere: itself, its credentials, and the values of its parts (`a=1; b=2`).
fn parts(value: &str) -> Vec<String> {
    let mut parts = vec![value.trim().to_owned()];
    let pairs = value.split([';', ',', ' ', '&']).filter_map(|pair| pair.split_once('='));
    parts.extend(pairs.map(|(_, value)| value.trim_matches('"').to_owned()));
    if let Some((scheme, credentials)) = value.trim().split_once(' ') {
        parts.push(credentials.trim().to_owned());
        let decoded = STANDARD.decode(credentials.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(decoded) = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
            parts.extend(decoded.split_once(':').map(|(_, password)| password.to_owned()));
            parts.push(decoded);
        }
    }
    parts
}

impl Held {
    fn is_in(&self, bytes: &[u8]) -> bool {
        self.values.is_in_text(bytes)
    }

    /// `None` where there is nothing to take out.
    fn text(&self, text: &str) -> Option<String> {
        if !self.is_in(text.as_bytes()) {
            return None;
        }
        // A document over several lines is none in any of them.
        if text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            return Some(self.values.redact(text));
        }
        let by_line: String = text
            .split_inclusive('\n')
            .map(|line| match self.is_in(line.as_bytes()) {
                true => Cow::Owned(self.values.redact(line)),
                false => Cow::Borrowed(line),
            })
            .collect();
        // What is left was wrapped over lines.
        if self.is_in(by_line.as_bytes()) { Some(self.values.redact(&by_line)) } else { Some(by_line) }
    }

    /// `None` where there is nothing to take out.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.is_in(bytes) {
            return None;
        }
        Some(self.lossy(bytes).into_bytes())
    }

    fn lossy(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        self.text(&text).unwrap_or_else(|| text.into_owned())
    }
}

/// A stream that comes in chunks, without held values. What comes out is a little late.
pub(crate) struct RedactedStream {
    held: Option<Arc<Held>>,
    /// What may be the beginning of a value.
    pending: Vec<u8>,
}

impl RedactedStream {
    /// Takes a chunk; `out` gets what is safe by now.
    pub(crate) fn feed(&mut self, chunk: &[u8], mut out: impl FnMut(&[u8])) {
        let Some(held) = &self.held else { return out(chunk) };
        self.pending.extend_from_slice(chunk);
        if self.pending.len() < held.reach + WINDOW {
            return;
        }
        let whole = &self.pending[..character_edge(&self.pending)];
        if !held.is_in(whole) {
            let cut = cut(whole, whole.len() - held.reach);
            out(&whole[..cut]);
            self.pending.drain(..cut);
            return;
        }
        // A cut through a value would leave both halves standing: the parts on their own have to come to the same.
        let redacted = held.lossy(whole);
        let mut end = whole.len();
        for _ in 0..4 {
            end = cut(whole, end.saturating_sub(held.reach));
            let (head, tail) = whole.split_at(end);
            if end > 0 && redacted == held.lossy(head) + &held.lossy(tail) {
                out(held.bytes(head).as_deref().unwrap_or(head));
                self.pending.drain(..end);
                return;
            }
        }
        // They stand so close, or in each other, that there is no such place. Behind the last of them is one: of a value that
        // ends later the beginning is gone. What is no text does not come back as it was.
        let behind = redacted.rsplit_once(REDACTED).map_or("", |(_, behind)| behind);
        let behind = behind.rsplit(char::REPLACEMENT_CHARACTER).next().unwrap_or_default();
        let kept = if whole.ends_with(behind.as_bytes()) { behind.len() } else { 0 };
        let end = whole.len() - kept;
        out(&redacted.as_bytes()[..redacted.len() - kept]);
        self.pending.drain(..end);
    }

    /// The stream has ended; `out` gets the rest.
    pub(crate) fn end(&mut self, mut out: impl FnMut(&[u8])) {
        let pending = std::mem::take(&mut self.pending);
        if let Some(held) = self.held.as_ref().filter(|_| !pending.is_empty()) {
            out(held.bytes(&pending).as_deref().unwrap_or(&pending));
        }
    }
}

/// Where to cut at or before `latest`: behind a line, else before a character.
fn cut(bytes: &[u8], latest: usize) -> usize {
    if let Some(newline) = bytes[..latest].iter().rposition(|&byte| byte == b'\n') {
        return newline + 1;
    }
    (latest.saturating_sub(3)..=latest).rev().find(|at| !is_inner(bytes, *at)).unwrap_or(latest)
}

/// The bytes' end, or the beginning of a character whose rest is still to come.
fn character_edge(bytes: &[u8]) -> usize {
    let last = (bytes.len().saturating_sub(4)..bytes.len()).rev().find(|at| !is_inner(bytes, *at)).unwrap_or(0);
    match std::str::from_utf8(&bytes[last..]) {
        Err(error) if error.error_len().is_none() => last + error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn is_inner(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80)
}
