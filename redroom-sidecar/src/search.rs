//! Secrets in streams: every planted secret in every disguise, in one pass over chunks of any cut, nothing buffered.
//!
//! Each disguise is a *lane*: a small byte machine that undoes it (percent signs, JSON escapes, separators between hex pairs,
//! line ends in base64) and an automaton that knows all secrets at once. A byte costs the same for one secret as for a
//! thousand.
//!
//! Found: the value as it is; in other letter case; percent-encoded in part or whole; as hexadecimal digits of either case,
//! also wrapped or with separators between the pairs; as base64 at any byte offset, in either alphabet, padded or not,
//! wrapped or not. JSON string escapes are transport and do not hide anything.
//!
//! **Not found**: compressed, encrypted, reversed or otherwise computed forms, UTF-16, base64 whose letter case was lost (as a
//! resolver may do to a name), and a secret that is split over several requests.

mod automaton;
mod base64;
mod hex;
mod json;
mod percent;
mod redact;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use automaton::{Automaton, Cursor};

pub use redact::redact_secrets;

/// The disguise that a secret wore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Encoding {
    /// As it is.
    Plain,
    /// In other letter case (DNS lowers names).
    CaseInsensitive,
    /// Percent-encoded, in part or whole.
    Url,
    /// Hexadecimal digits of either case.
    Hex,
    /// Base64 at any byte offset, either alphabet, wrapped or not.
    Base64,
}

/// All secrets of a run, ready to be searched for. Cheap to clone.
#[derive(Clone)]
pub struct SecretSet(Arc<Compiled>);

struct Compiled {
    names: Vec<Arc<str>>,
    lengths: Vec<u64>,
    plain: Automaton,
    folded: Automaton,
    hex: Automaton,
    base64: Automaton,
}

/// Where a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The secret's name.
    pub secret: Arc<str>,
    /// Its disguise.
    pub encoding: Encoding,
    /// How many bytes of the stream had been seen when it was complete.
    pub offset: u64,
}

/// One stream that is searched as it comes.
pub struct Scanner {
    set: SecretSet,
    offset: u64,
    matches: Vec<Match>,
    plain: Cursor,
    folded: Cursor,
    percent: percent::Decoder,
    percent_cursor: Cursor,
    json: json::Decoder,
    json_cursor: Cursor,
    hex: hex::Digits,
    hex_cursor: Cursor,
    base64: base64::Letters,
    base64_cursor: Cursor,
}

impl SecretSet {
    /// Compiles the secrets, given as name and value. Empty values are passed over: they would be everywhere.
    pub fn new<N: AsRef<str>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let secrets: Vec<(Arc<str>, Vec<u8>)> = secrets
            .into_iter()
            .map(|(name, value)| (Arc::from(name.as_ref()), value.as_ref().to_vec()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let values = || secrets.iter().map(|(_, value)| value.clone()).enumerate();
        let hexes = values().map(|(secret, value)| (secret, hex::pattern(&value)));
        let letters = values().flat_map(|(secret, value)| base64::patterns(&value).map(|pattern| (secret, pattern)));
        SecretSet(Arc::new(Compiled {
            plain: Automaton::exact(values()),
            folded: Automaton::folded(values()),
            hex: Automaton::exact(hexes),
            base64: Automaton::exact(letters),
            lengths: secrets.iter().map(|(_, value)| value.len() as u64).collect(),
            names: secrets.into_iter().map(|(name, _)| name).collect(),
        }))
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }

    /// A scanner for one stream.
    pub fn scanner(&self) -> Scanner {
        let compiled = &*self.0;
        Scanner {
            offset: 0,
            matches: Vec::new(),
            plain: compiled.plain.start(),
            folded: compiled.folded.start(),
            percent: percent::Decoder::default(),
            percent_cursor: compiled.plain.start(),
            json: json::Decoder::default(),
            json_cursor: compiled.plain.start(),
            hex: hex::Digits::default(),
            hex_cursor: compiled.hex.start(),
            base64: base64::Letters::default(),
            base64_cursor: compiled.base64.start(),
            set: self.clone(),
        }
    }

    /// Searches bytes that are there as a whole.
    pub fn search(&self, bytes: &[u8]) -> Vec<Match> {
        let mut scanner = self.scanner();
        scanner.feed(bytes);
        scanner.finish()
    }

    /// Searches a name of labels: as it is written, and with its labels joined, for what is too long for one label.
    pub fn search_name(&self, name: &[u8]) -> Vec<Match> {
        let mut matches = self.search(name);
        let joined: Vec<u8> = name.iter().copied().filter(|byte| *byte != b'.').collect();
        for found in self.search(&joined) {
            if !matches.iter().any(|known| known.secret == found.secret && known.encoding == found.encoding) {
                matches.push(found);
            }
        }
        matches
    }
}

impl Scanner {
    /// Takes the next piece of the stream.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.set.is_empty() {
            return;
        }
        let set = self.set.clone();
        for &byte in chunk {
            self.offset += 1;
            self.step(&set.0, byte);
        }
    }

    /// What was found so far: each secret in each disguise once, in order of first sight.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// What was found in the whole stream.
    pub fn finish(mut self) -> Vec<Match> {
        let set = self.set.clone();
        let Scanner { offset, matches, percent, percent_cursor, json, json_cursor, hex, hex_cursor, .. } = &mut self;
        // Escapes that the stream's end cuts off stand for themselves.
        percent.finish(|byte, undone| {
            step_undone(&set.0, percent_cursor, byte, undone, Encoding::Url, *offset, matches);
        });
        json.finish(|byte, undone| {
            step_undone(&set.0, json_cursor, byte, undone, Encoding::Plain, *offset, matches);
        });
        hex.finish(|digit| {
            set.0.hex.step(hex_cursor, digit, |secret| note(matches, &set.0, secret, Encoding::Hex, *offset));
        });
        self.matches
    }

    fn step(&mut self, compiled: &Compiled, byte: u8) {
        let Scanner {
            offset,
            matches,
            plain,
            folded,
            percent,
            percent_cursor,
            json,
            json_cursor,
            hex,
            hex_cursor,
            base64,
            base64_cursor,
            ..
        } = self;
        let offset = *offset;
        compiled.plain.step(plain, byte, |secret| note(matches, compiled, secret, Encoding::Plain, offset));
        compiled.folded.step(folded, byte, |secret| {
            if !compiled.plain.ends_here(plain, secret) {
                note(matches, compiled, secret, Encoding::CaseInsensitive, offset);
            }
        });
        percent.take(byte, |byte, undone| {
            step_undone(compiled, percent_cursor, byte, undone, Encoding::Url, offset, matches);
        });
        json.take(byte, |byte, undone| {
            step_undone(compiled, json_cursor, byte, undone, Encoding::Plain, offset, matches);
        });
        hex.take(byte, |digit| {
            compiled.hex.step(hex_cursor, digit, |secret| note(matches, compiled, secret, Encoding::Hex, offset));
        });
        base64.take(byte, |letter| {
            compiled.base64.step(base64_cursor, letter, |secret| {
                note(matches, compiled, secret, Encoding::Base64, offset);
            });
        });
    }
}

/// A byte of a lane that undoes escapes: a secret counts only if one of its bytes had to be undone, else it is plain anyway.
fn step_undone(
    compiled: &Compiled,
    cursor: &mut Cursor,
    byte: u8,
    undone: bool,
    encoding: Encoding,
    offset: u64,
    matches: &mut Vec<Match>,
) {
    cursor.mark(undone);
    let since = cursor.since_marked();
    compiled.plain.step(cursor, byte, |secret| {
        if since.is_some_and(|since| since < compiled.lengths[secret]) {
            note(matches, compiled, secret, encoding, offset);
        }
    });
}

fn note(matches: &mut Vec<Match>, compiled: &Compiled, secret: usize, encoding: Encoding, offset: u64) {
    let name = &compiled.names[secret];
    if !matches.iter().any(|known| known.encoding == encoding && known.secret == *name) {
        matches.push(Match { secret: name.clone(), encoding, offset });
    }
}

/// Every secret in `text`, given as name and value, with the disguise it wears.
///
/// ```
/// use redroom_sidecar::search::{Encoding, find_secrets};
///
/// let found = find_secrets("q=UExBVFlQVVMtNzczMQ==", [("token", "PLATYPUS-7731")]);
/// assert_eq!(found, [("token".to_owned(), Encoding::Base64)]);
/// ```
pub fn find_secrets<N: AsRef<str>, V: AsRef<[u8]>>(
    text: impl AsRef<[u8]>,
    secrets: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Encoding)> {
    let found = SecretSet::new(secrets).search(text.as_ref());
    found.into_iter().map(|found| (found.secret.to_string(), found.encoding)).collect()
}

impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretSet").field(&self.0.names).finish()
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("offset", &self.offset).field("matches", &self.matches).finish_non_exhaustive()
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Plain => "plain",
            Encoding::CaseInsensitive => "case_insensitive",
            Encoding::Url => "url",
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
        })
    }
}

#[cfg(test)]
mod tests;
