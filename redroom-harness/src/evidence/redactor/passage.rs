//! What streams into a sandbox, without held values and without delay: nothing waits but an end that may be the beginning
//! of a value.
//!
//! Whatever form of a value can be written down beforehand (as it is, escaped, in percent signs, hexadecimal, base64) is
//! replaced wherever it is cut. All that passes is searched for every other disguise too; one that is found breaks the
//! stream off, before its last bytes have passed.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use redroom_sidecar::search::Scanner;

use super::{Held, REDACTED};

/// How much of a stream waits beyond the longest form. Only values that overlap each other without end come to this.
const MOST_WAITING: usize = 64 << 10;
/// How often JSON can be quoted in JSON.
const QUOTED: usize = 3;

/// The forms of held values that are replaced where they stand.
#[derive(Debug)]
pub(super) struct Forms {
    automaton: AhoCorasick,
    /// In lower case.
    forms: Vec<Vec<u8>>,
    longest: usize,
    /// Whether a form begins with a byte.
    first: [bool; 256],
}

impl Forms {
    /// Of values that are not empty.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms: Vec<Vec<u8>> = values.into_iter().flat_map(forms).collect();
        forms.iter_mut().for_each(|form| form.make_ascii_lowercase());
        forms.sort();
        forms.dedup();
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(&forms)
            .expect("headers and keys stay far below two gigabytes");
        let first = std::array::from_fn(|byte| forms.iter().any(|form| form[0] == (byte as u8).to_ascii_lowercase()));
        Forms { automaton, longest: forms.iter().map(Vec::len).max().unwrap_or(1), forms, first }
    }

    /// Where the part begins that may grow into a form.
    fn growing_from(&self, bytes: &[u8]) -> usize {
        let earliest = bytes.len().saturating_sub(self.longest - 1);
        let grows = |tail: &[u8]| {
            self.forms.iter().any(|form| form.len() > tail.len() && form[..tail.len()].eq_ignore_ascii_case(tail))
        };
        (earliest..bytes.len())
            .find(|&start| self.first[usize::from(bytes[start])] && grows(&bytes[start..]))
            .unwrap_or(bytes.len())
    }

    /// Where forms stand, those that overlap as one.
    fn spans(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<_> = self.automaton.find_overlapping_iter(bytes).map(|found| found.range()).collect();
        found.sort_by_key(|span| span.start);
        let mut spans: Vec<Range<usize>> = Vec::new();
        for span in found {
            match spans.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
        spans
    }
}

/// How a value can be written, as far as it is the same in every place. Letter case is left to the search.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let each = |write: fn(u8) -> String| bytes.iter().map(|&byte| write(byte)).collect::<String>().into_bytes();
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let percent = bytes.iter().map(|&byte| match unreserved(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    });
    let mut forms = vec![
        each(|byte| format!("%{byte:02x}")),
        percent.collect::<String>().into_bytes(),
        each(|b| format!("{b:02x}")),
    ];
    for slashes in [value.to_owned(), value.replace('/', "\\/")] {
        let mut quoted = slashes.clone();
        forms.push(slashes.into_bytes());
        for _ in 0..QUOTED {
            quoted = serde_json::Value::from(quoted.as_str()).to_string();
            quoted = quoted[1..quoted.len() - 1].to_owned();
            forms.push(quoted.clone().into_bytes());
        }
    }
    for before in 0..3 {
        // The characters that hold bits of this value alone.
        let padded = [&b"\0\0"[..before], bytes].concat();
        let (start, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        for alphabet in [&STANDARD, &URL_SAFE] {
            forms.push(alphabet.encode(&padded).as_bytes()[start..end].to_vec());
        }
    }
    forms
}

/// A held value came in a disguise that cannot be taken out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disguised;

/// A stream on its way into a sandbox.
pub(crate) struct Passage {
    held: Option<(Arc<Held>, Scanner)>,
    /// What may be the beginning of a value.
    waiting: Vec<u8>,
}

impl Passage {
    pub(super) fn new(held: Option<Arc<Held>>) -> Self {
        let held = held.map(|held| {
            let scanner = held.values.scanner();
            (held, scanner)
        });
        Passage { held, waiting: Vec::new() }
    }

    /// Takes a chunk, and gives what may pass by now.
    ///
    /// # Errors
    ///
    /// The stream has to be broken off: nothing of the chunk may pass.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Result<Vec<u8>, Disguised> {
        self.pass(chunk, false)
    }

    /// The stream has ended: gives the rest.
    ///
    /// # Errors
    ///
    /// As [`feed`](Self::feed).
    pub(crate) fn end(&mut self) -> Result<Vec<u8>, Disguised> {
        self.pass(&[], true)
    }

    fn pass(&mut self, chunk: &[u8], last: bool) -> Result<Vec<u8>, Disguised> {
        let Some((held, scanner)) = &mut self.held else { return Ok(chunk.to_vec()) };
        let forms = &held.forms;
        self.waiting.extend_from_slice(chunk);
        let mut spans = forms.spans(&self.waiting);
        let mut end = if last { self.waiting.len() } else { forms.growing_from(&self.waiting) };
        if let Some(span) = spans.iter().find(|span| span.start < end && end < span.end) {
            end = span.start;
        }
        spans.retain(|span| span.end <= end);
        if self.waiting.len() - end > forms.longest + MOST_WAITING {
            return Err(Disguised);
        }
        let mut passing = Vec::with_capacity(end);
        let mut passed = 0;
        for span in spans {
            passing.extend_from_slice(&self.waiting[passed..span.start]);
            passing.extend_from_slice(REDACTED.as_bytes());
            passed = span.end;
        }
        passing.extend_from_slice(&self.waiting[passed..end]);
        self.waiting.drain(..end);
        scanner.feed(&passing);
        if scanner.matches().is_empty() { Ok(passing) } else { Err(Disguised) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Redactor;
    use super::*;

    const KEY: &str = "sk-held/\"7f3a\"-quoted";

    fn redactor() -> Redactor {
        Redactor::new([KEY, "Bearer tok-8842-aaaa"])
    }

    fn passed(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<String, Disguised> {
        let mut passage = redactor().passage();
        let mut passed = Vec::new();
        for chunk in chunks {
            passed.extend(passage.feed(chunk.as_ref())?);
        }
        passed.extend(passage.end()?);
        Ok(String::from_utf8_lossy(&passed).into_owned())
    }

    #[test]
    fn a_value_is_replaced_wherever_it_is_cut_and_in_every_usual_form() {
        let quoted = |text: &str| serde_json::Value::from(text).to_string().trim_matches('"').to_owned();
        for form in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            quoted(KEY),
            quoted(&quoted(KEY)),
            KEY.replace('/', "\\/"),
            KEY.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            "sk-held%2F%227f3a%22-quoted".to_owned(),
            KEY.bytes().map(|byte| format!("{byte:02x}")).collect(),
            "Bearer tok-8842-aaaa".to_owned(),
            "tok-8842-aaaa".to_owned(),
        ] {
            let stream = format!("data: before {form} after\n\n");
            for cut in 0..=stream.len() {
                let chunks = [&stream.as_bytes()[..cut], &stream.as_bytes()[cut..]];
                assert_eq!(passed(chunks).as_deref(), Ok("data: before [redacted] after\n\n"), "{form} cut at {cut}");
            }
            let bytes = stream.as_bytes().chunks(1);
            assert_eq!(passed(bytes).as_deref(), Ok("data: before [redacted] after\n\n"), "{form}");
        }
        for before in ["", "x", "xx"] {
            let text = passed([STANDARD.encode(format!("{before}{KEY}yyy"))]).unwrap();
            assert!(text.contains("[redacted]") && text.len() < 30, "{text}");
        }
    }

    #[test]
    fn nothing_waits_but_what_may_be_the_beginning_of_a_value() {
        let mut passage = redactor().passage();
        assert_eq!(passage.feed(b"data: hello\n\n").unwrap(), b"data: hello\n\n");
        assert_eq!(passage.feed(b"data: sk-he").unwrap(), b"data: ");
        assert_eq!(passage.feed(b"lp me\n\n").unwrap(), b"sk-help me\n\n");
        assert_eq!(passage.feed(b"sk-held").unwrap(), b"");
        assert_eq!(passage.end().unwrap(), b"sk-held");
    }

    #[test]
    fn a_disguise_that_cannot_be_replaced_breaks_the_stream_off() {
        let spaced: Vec<String> = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(passed([format!("dump: {}\n", spaced.join(" "))]), Err(Disguised));
        let escaped: String = KEY.chars().map(|char| format!("\\u{:04x}", u32::from(char))).collect();
        assert_eq!(passed([escaped]), Err(Disguised));
    }

    #[test]
    fn values_that_overlap_go_together_and_do_not_wait_for_ever() {
        let redactor = Redactor::new(["abababab"]);
        let mut passage = redactor.passage();
        let mut passed = passage.feed("ab".repeat(1000).as_bytes()).unwrap();
        passed.extend(passage.feed(b" end").unwrap());
        assert_eq!(passed, b"[redacted] end");
        let endless = (0..400).try_for_each(|_| passage.feed("ab".repeat(4096).as_bytes()).map(drop));
        assert_eq!(endless, Err(Disguised));
    }

    #[test]
    fn where_nothing_is_held_everything_passes_at_once() {
        let mut passage = Redactor::default().passage();
        assert_eq!(passage.feed(b"sk-held").unwrap(), b"sk-held");
        assert_eq!(passage.end().unwrap(), b"");
    }

    proptest! {
        #[test]
        fn what_holds_nothing_passes_unchanged_however_it_is_cut(
            text in "(sk-|held|tok-8842|Bearer |[a-z\"\\\\/ ]){0,40}",
            cuts in prop::collection::vec(1usize..9, 1..20),
        ) {
            prop_assume!(redactor().text(text.clone()) == text);
            let mut chunks = Vec::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(passed(chunks), Ok(text));
        }
    }
}
