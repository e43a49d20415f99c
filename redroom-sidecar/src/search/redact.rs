//! Secrets taken out of text, in every encoding that the search knows.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::PatternID;
use serde::de::IgnoredAny;

use super::Encoding;
use super::lane::Lanes;
use super::patterns::Patterns;
use super::probe::Sink;

const REDACTED: &str = "[redacted]";

/// The text with each of `values` in it replaced by `[redacted]`, in every encoding that
/// [`find_secrets`](super::find_secrets) knows. Values that overlap go together. JSON stays JSON.
///
/// ```
/// # use redroom_sidecar::search as redroom;
/// use redroom::redact_secrets;
///
/// let text = redact_secrets("key sk-12345678, in hex 736b2d3132333435363738", ["sk-12345678"]);
/// assert_eq!(text, "key [redacted], in hex [redacted]");
/// ```
pub fn redact_secrets<V: AsRef<[u8]>>(text: &str, values: impl IntoIterator<Item = V>) -> String {
    let unnamed: Arc<str> = Arc::from("");
    let patterns = Patterns::new(values.into_iter().map(|value| (unnamed.clone(), value)));
    redact(&patterns, text)
}

pub(super) fn redact(patterns: &Patterns, text: &str) -> String {
    if is_json(text) && is_in(patterns, text.as_bytes()) {
        let redacted = redact_tokens(patterns, text);
        // What is left stands in several values together, or in what is between them.
        if is_json(&redacted) && !is_in(patterns, redacted.as_bytes()) {
            return redacted;
        }
    }
    redact_text(patterns, text)
}

/// JSON with each of its texts and numbers redacted by itself: its shape stays as it was.
fn redact_tokens(patterns: &Patterns, json: &str) -> String {
    let mut redacted = String::with_capacity(json.len());
    // For each object around: the names that it has had, and whether one was redacted.
    let mut objects: Vec<Option<(HashSet<String>, bool)>> = Vec::new();
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_end(rest),
            _ if in_number(first) => rest.find(|char| !in_number(char)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        let held = length > 1 && is_in(patterns, token.as_bytes());
        match first {
            '{' => objects.push(Some((HashSet::new(), false))),
            '[' => objects.push(None),
            '}' | ']' => drop(objects.pop()),
            _ => {}
        }
        if first != '"' {
            redacted.push_str(if held { "\"[redacted]\"" } else { token });
            continue;
        }
        let inner = &token[1..token.len() - 1];
        let mut inner = if held { redact_spans(patterns, inner) } else { inner.to_owned() };
        if rest.trim_start().starts_with(':')
            && let Some(Some((names, any))) = objects.last_mut()
        {
            *any |= held;
            // Names that were told apart by what is held are still several.
            while *any && names.contains(&inner) {
                inner.push('\'');
            }
            names.insert(inner.clone());
        }
        redacted.push('"');
        redacted.push_str(&inner);
        redacted.push('"');
    }
    redacted
}

/// Where a string ends that the text begins with, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn in_number(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.')
}

/// A piece of text, whatever it is a piece of.
fn redact_spans(patterns: &Patterns, text: &str) -> String {
    let spans = spans(patterns, text);
    replace(text, &spans, |_| REDACTED.to_owned())
}

fn spans(patterns: &Patterns, text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<_> = occurrences(patterns, text.as_bytes())
        .into_iter()
        .map(|(end, pattern)| start_of(patterns, text.as_bytes(), end, pattern)..end)
        .collect();
    snap(text, &mut spans);
    spans
}

fn redact_text(patterns: &Patterns, text: &str) -> String {
    let spans = spans(patterns, text);
    if spans.is_empty() {
        return text.to_owned();
    }
    let redacted = replace(text, &spans, |_| REDACTED.to_owned());
    if !is_json(text) || is_json(&redacted) {
        return redacted;
    }
    // A number, or a piece of structure: a string has to stand in its place.
    let redacted = replace_scalars(text, &spans);
    if is_json(&redacted) { redacted } else { format!("\"{REDACTED}\"") }
}

/// Whether there is anything to be replaced.
pub(super) fn is_in(patterns: &Patterns, bytes: &[u8]) -> bool {
    !occurrences(patterns, bytes).is_empty()
}

/// Every place where a pattern ends, in order.
fn occurrences(patterns: &Patterns, bytes: &[u8]) -> Vec<(usize, PatternID)> {
    struct Ends {
        offset: usize,
        found: Vec<(usize, PatternID)>,
    }
    impl Sink for Ends {
        fn found(&mut self, pattern: PatternID, _encoding: Encoding) {
            self.found.push((self.offset, pattern));
        }
    }
    if patterns.is_empty() {
        return Vec::new();
    }
    let mut lanes = Lanes::new(patterns);
    let mut ends = Ends { offset: 0, found: Vec::new() };
    for &byte in bytes {
        ends.offset += 1;
        lanes.step(patterns, byte, &mut ends);
    }
    lanes.finish(patterns, &mut ends);
    ends.found.sort();
    ends.found.dedup();
    ends.found
}

/// The last place from which on the bytes before `end` still hold the pattern.
fn start_of(patterns: &Patterns, bytes: &[u8], end: usize, pattern: PatternID) -> usize {
    let holds = |start: usize| occurrences(patterns, &bytes[start..end]).contains(&(end - start, pattern));
    let mut length = patterns.len_of(pattern).min(end);
    while length < end && !holds(end - length) {
        length = (length * 2).min(end);
    }
    let (mut holding, mut missing) = (end - length, end);
    while holding + 1 < missing {
        let middle = holding.midpoint(missing);
        if holds(middle) {
            holding = middle;
        } else {
            missing = middle;
        }
    }
    holding
}

/// Widens spans to whole characters and whole JSON escapes, and joins those that overlap.
fn snap(text: &str, spans: &mut Vec<Range<usize>>) {
    spans.sort_by_key(|span| span.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for span in spans.drain(..) {
        match joined.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    let mut atoms = atoms(text).peekable();
    for span in joined {
        while atoms.next_if(|atom| atom.end <= span.start).is_some() {}
        let mut snapped = span;
        while let Some(atom) = atoms.next_if(|atom| atom.start < snapped.end) {
            snapped.start = snapped.start.min(atom.start);
            snapped.end = snapped.end.max(atom.end);
        }
        match spans.last_mut() {
            Some(last) if snapped.start < last.end => last.end = last.end.max(snapped.end),
            _ => spans.push(snapped),
        }
    }
}

/// The parts of a text that cannot be cut without changing what is beside the cut.
fn atoms(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let bytes = text.as_bytes();
    let unicode = move |at: usize| {
        let escape = bytes.get(at..at + 6)?;
        (escape.starts_with(b"\\u") && escape[2..].iter().all(u8::is_ascii_hexdigit)).then_some(escape)
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let char = text[at..].chars().next()?;
        let start = at;
        at += match (char, unicode(at)) {
            ('\\', Some(first)) => {
                let high = matches!(first[2..4], [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B']);
                if high && unicode(at + 6).is_some() { 12 } else { 6 }
            }
            ('\\', None) => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            _ => char.len_utf8(),
        };
        Some(start..at)
    })
}

fn replace(text: &str, spans: &[Range<usize>], with: impl Fn(&Range<usize>) -> String) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for span in spans {
        replaced.push_str(&text[end..span.start]);
        replaced.push_str(&with(span));
        end = span.end;
    }
    replaced.push_str(&text[end..]);
    replaced
}

/// As [`replace`], where a span outside of strings takes its whole number, and a string stands in its place.
fn replace_scalars(text: &str, spans: &[Range<usize>]) -> String {
    let in_number = |byte: &u8| in_number(char::from(*byte));
    let bytes = text.as_bytes();
    let mut strings = vec![false; spans.len()];
    let mut quoted = false;
    let mut next = 0;
    for atom in atoms(text) {
        while next < spans.len() && spans[next].start <= atom.start {
            strings[next] = quoted;
            next += 1;
        }
        quoted ^= text[atom] == *"\"";
    }
    let mut widened: Vec<(Range<usize>, bool)> = Vec::new();
    for (span, &string) in spans.iter().zip(&strings) {
        let mut span = span.clone();
        if !string {
            span.start -= bytes[..span.start].iter().rev().take_while(|byte| in_number(byte)).count();
            span.end += bytes[span.end..].iter().take_while(|byte| in_number(byte)).count();
        }
        match widened.last_mut() {
            Some((last, _)) if span.start < last.end => last.end = last.end.max(span.end),
            _ => widened.push((span, string)),
        }
    }
    let spans: Vec<_> = widened.iter().map(|(span, _)| span.clone()).collect();
    replace(text, &spans, |span| {
        let string = widened.iter().any(|(widened, string)| widened == span && *string);
        if string { REDACTED.to_owned() } else { format!("\"{REDACTED}\"") }
    })
}

/// Whether the text is a JSON object or array, or several.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>().all(|value| value.is_ok())
}
