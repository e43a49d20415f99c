//! Secrets in streams: every secret in every encoding, in one pass over chunks cut anywhere, at a cost that does not grow
//! with the number of secrets. Nothing of the stream is kept.
//!
//! Bytes flow through lanes and probes:
//!
//! - a **lane** is the stream with the escapes of a transport taken away: as it is, JSON strings (up to three inside each
//!   other), percent-encoding (twice), `+` for a space, and their usual combinations (`lane`);
//! - in every lane a **probe** looks for the secrets as text, as hexadecimal digits and dumps, and as base64 (`probe`,
//!   `hex`, `dump`, `base64`). Digits are decoded at every alignment and the decoded bytes searched, so that every bit of the secret has
//!   to be there and a neighbour's bits never matter.
//!
//! JSON escapes are transport: a secret whose quotes were escaped is still [`Encoding::Plain`]. So are line ends: a secret
//! of several lines is also found with CRLF, with spaces for line ends, and joined. White space around a secret does not
//! count, because shells take it away.
//!
//! **Not found**: what was compressed, encrypted, hashed, reversed, or spread over several streams; UTF-16 and other
//! character sets; letter case beyond ASCII; encodings inside each other other than base64 or hex inside the transports
//! above (base64 of base64, of hex digits, of JSON that needed escapes); base32, base58, base85, quoted-printable, HTML
//! entities; lists of decimal or octal bytes; dumps in words of another byte order (`od -x`); base64 in a DNS name of which a resolver changed the letter case; a secret in part.
//!
//! This module knows values and names; not where the bytes come from, nor what a sighting means.

mod base64;
mod dump;
mod hex;
mod json;
mod lane;
mod patterns;
mod percent;
mod probe;
mod redact;
mod scanner;
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

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use redact::redact_secrets;
pub use scanner::Scanner;

use patterns::Patterns;

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

/// A secret in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The secret's name.
    pub secret: Arc<str>,
    /// The disguise it wore.
    pub encoding: Encoding,
    /// How many bytes of the stream had been read when it was complete, the first time.
    pub offset: u64,
}

/// Secrets, ready to be searched for. Made once per run; a clone is cheap.
#[derive(Clone)]
pub struct SecretSet {
    patterns: Arc<Patterns>,
}

impl SecretSet {
    /// Makes names and values ready. A value that is empty, or white space only, is never found.
    pub fn new<N: Into<String>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let secrets = secrets.into_iter().map(|(name, value)| (Arc::from(name.into()), value));
        SecretSet { patterns: Arc::new(Patterns::new(secrets)) }
    }

    /// Whether there is nothing to be found.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A search through one stream.
    pub fn scanner(&self) -> Scanner {
        Scanner::new(self.patterns.clone())
    }

    /// A search through bytes that are all there, in the order in which the matches end.
    pub fn search(&self, bytes: &[u8]) -> Vec<Match> {
        let mut scanner = self.scanner();
        scanner.feed(bytes);
        scanner.finish()
    }

    /// A search through a DNS name, given as its labels: with dots between them, and joined, as a payload is that was cut
    /// to fit. Resolvers change the letter case: plain text is found all the same, hex too, base64 only where the case was
    /// kept. Offsets count in the form that was found.
    pub fn search_name<L: AsRef<[u8]>>(&self, labels: &[L]) -> Vec<Match> {
        let mut dotted = self.scanner();
        let mut joined = self.scanner();
        for (index, label) in labels.iter().enumerate() {
            if index > 0 {
                dotted.feed(b".");
            }
            dotted.feed(label.as_ref());
            joined.feed(label.as_ref());
        }
        let mut matches = dotted.finish();
        for found in joined.finish() {
            if !matches.iter().any(|known| known.secret == found.secret && known.encoding == found.encoding) {
                matches.push(found);
            }
        }
        matches
    }

    /// The text with every secret in it replaced by `[redacted]`, as by [`redact_secrets`].
    pub fn redact(&self, text: &str) -> String {
        redact::redact(&self.patterns, text)
    }
}

/// The number of secrets: never names or values.
impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSet").field("secrets", &self.patterns.secrets()).finish_non_exhaustive()
    }
}

/// Which of the named `secrets` are in `text`, and in which encoding; each pair once, sorted.
///
/// ```
/// # use redroom_sidecar::search as redroom;
/// use redroom::{Encoding, find_secrets};
///
/// let found = find_secrets("GET /?t=UExBVFlQVVMtNzczMQ", [("api_token", "PLATYPUS-7731")]);
/// assert_eq!(found, [("api_token".to_owned(), Encoding::Base64)]);
/// ```
pub fn find_secrets<N: Into<String>, V: AsRef<[u8]>>(
    text: impl AsRef<[u8]>,
    secrets: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Encoding)> {
    let matches = SecretSet::new(secrets).search(text.as_ref());
    let mut found: Vec<_> = matches.into_iter().map(|found| (found.secret.to_string(), found.encoding)).collect();
    found.sort();
    found.dedup();
    found
}
