//! Secrets in streams: every secret in every encoding, in one pass over chunks cut anywhere, at a cost that does not grow
//! with the number of secrets. Nothing of the stream is kept.
//!
//! Bytes flow through lanes and probes:
//!
//! - a **lane** is the stream with the escapes of a transport taken away: as it is, JSON strings (up to three inside each
//!   other), percent-encoding (twice), `+` for a space, quoted-printable, character references, and their usual
//!   combinations (`lane`);
//! - in every lane a **probe** looks for the secrets as text, as hexadecimal digits and dumps, as numbers and words, as base64
//!   and base32 (`probe`, `hex`, `dump`, `numbers`, `words`, `base64`, `base32`). Digits are decoded at every alignment and the
//!   decoded bytes searched, so that every bit of the secret has to be there and a neighbour's bits never matter.
//!
//! A model needs no program to turn a text around or to move its letters by thirteen places: both are forms of the value like
//! any other (`patterns`).
//!
//! Escapes of JSON, mail and HTML are transport: a secret whose quotes were escaped is still [`Encoding::Plain`]. So are line
//! ends: a secret of several lines is also found with CRLF, with spaces for line ends, and joined. White space around a secret
//! does not count, because shells take it away.
//!
//! Bytes that something was packed in are **containers**: gzip, zlib, entries of ZIP files, Zstandard frames. They are
//! recognised by their first bytes wherever these stand (`signs`), also where base64 or hexadecimal digits stand for them
//! (`armour`), and opened while the stream is read (`opener`); what comes out is searched as a stream of its own
//! (`layer`), containers in it included, three inside each other. Files in tar archives and stored ones in ZIP archives are
//! bytes like any other. [`Match::inside`] names the containers.
//!
//! What could not be searched, or not to its end, is told as [`Unsearched`], and leaves a run open: it proves nothing.
//!
//! # What is found, what is told, what is missed
//!
//! | a secret … | | test |
//! | --- | --- | --- |
//! | as it is, in other letter case of ASCII | found | `forms::plain_and_folded_case_are_told_apart` |
//! | in JSON, as `\u` escapes too, three times quoted | found | `forms::json_escapes_are_transport` |
//! | percent-encoded, in part or whole, twice; in a form | found | `forms::percent_encoding_is_found_in_part_and_whole` |
//! | in quoted-printable | found | `forms::quoted_printable_is_transport` |
//! | as character references of HTML and XML, in JSON too | found | `forms::character_references_are_transport` |
//! | as hexadecimal digits, with any separator | found | `forms::hex_is_found_in_every_notation` |
//! | in a dump with addresses (`xxd`, `hexdump -C`, `od -t x1`) | found | `forms::dumps_with_addresses_are_found_across_their_lines` |
//! | as numbers, decimal or octal: lists, escapes, `od -b`, `od -t u1` | found | `numbers::lists_of_numbers_are_found_in_decimal_and_octal` |
//! | in a dump of words (`od`, `od -x`, `hexdump`) | found | `numbers::dumps_of_numbers_and_words_are_found_across_their_lines` |
//! | reversed, in rot13 | found | `forms::what_a_model_turns_by_itself_is_found` |
//! | in base64, either alphabet, at any offset, padded or not | found | `forms::base64_is_found_at_every_offset_in_either_alphabet` |
//! | in base64 that is wrapped | found | `forms::base64_is_found_when_it_is_wrapped` |
//! | in base32, either alphabet and case, at any offset, wrapped | found | `forms::base32_is_found_at_every_offset_in_either_alphabet_and_case` |
//! | in UTF-16 or UTF-32, with a mark or without, in base64 too | found | `forms::wide_characters_are_found_in_either_byte_order_at_any_offset` |
//! | any of these, in noise, cut anywhere | found | `properties::a_disguised_secret_in_noise_is_found_in_any_chunks` |
//! | in a DNS name, over its labels | found | `a_dns_name_is_searched_with_dots_and_joined` |
//! | the same over TLS, over HTTPS, at any port | found | `dns::a_secret_in_a_name_is_found_whichever_way_its_message_goes` |
//! | in gzip, zlib, ZIP, Zstandard, tar, three inside each other | found | `containers::every_encoding_is_found_in_every_container_to_the_third_depth` |
//! | in a format that cannot be opened: xz, bzip2, 7z, RAR, LZ4 | told | `containers::closed::what_cannot_be_opened_is_told` |
//! | encrypted in ZIP, by `openssl enc`, by OpenPGP with armour or without | told | the same |
//! | any of these two in base64 or hexadecimal digits | told | `containers::closed::what_cannot_be_opened_is_told_as_text_too` |
//! | in what lies deeper than three containers, is damaged, or is a bomb | told | `containers::closed::what_lies_deeper_than_the_third_is_told`, `containers::closed::what_lies_deeper_as_text_is_told_too`, `containers::bounds::a_bomb_is_searched_within_bounds_and_told`, `containers::closed::a_container_that_breaks_off_is_searched_as_far_as_it_goes` |
//! | moved by another number of letters, in base58, base85, in words of another byte order without blanks between them | missed | `forms::what_is_said_not_to_be_found_is_not` |
//! | in base64 of base64, of hex digits, of another escape | missed | the same |
//! | in pieces that are not next to each other, over several streams, or in part | missed | the same |
//!
//! Missed as well: what was encrypted otherwise, or hashed; Brotli and raw DEFLATE without a header that names them, zlib of a
//! window below 32 KiB, and formats that are not named above; uuencode, and base64 with anything but line ends between its
//! characters; what a pack of git puts together of a file and its difference; containers in base32, in dumps with addresses,
//! or whose base64 was wrapped in its first characters; character sets other than UTF-8, UTF-16 and UTF-32, and escapes in the
//! latter two; letter case beyond ASCII; base64 in a DNS name of which a resolver changed the letter case. A stream may inflate
//! to 256 times what was read of it, past 64 MiB to eight times; all streams of a [`SecretSet`] together may use 32 MiB for
//! open containers.
//!
//! This module knows values and names; not where the bytes come from, nor what a sighting means.

mod armour;
mod base32;
mod base64;
mod container;
mod decoder;
mod deflate;
mod dump;
mod entities;
mod findings;
mod head;
mod hex;
mod json;
mod lane;
mod layer;
mod means;
mod numbers;
mod opener;
mod patterns;
mod percent;
mod probe;
mod quoted;
mod redact;
mod scanner;
mod searched;
mod signs;
mod source;
mod words;
mod zstd;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use container::{Container, Inside, Unsearched, Why};
pub use redact::redact_secrets;
pub use scanner::Scanner;
pub use searched::Searched;

use means::Budget;
use patterns::Patterns;

pub(crate) use searched::note_unsearched;

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
    /// UTF-16 of either byte order and letter case, with a mark or without. Base64 or hex *of* it are those.
    Utf16,
    /// UTF-32, likewise.
    Utf32,
    /// Base32 at any byte offset, in either alphabet of RFC 4648 and either letter case, wrapped or not.
    Base32,
    /// Each byte as a decimal number.
    Decimal,
    /// Each byte, or each two in a dump, as an octal number.
    Octal,
    /// From its last character to its first, in either letter case.
    Reversed,
    /// Each letter of ASCII thirteen places further, in either letter case.
    Rot13,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Plain => "plain",
            Encoding::CaseInsensitive => "case_insensitive",
            Encoding::Url => "url",
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
            Encoding::Utf16 => "utf16",
            Encoding::Utf32 => "utf32",
            Encoding::Base32 => "base32",
            Encoding::Decimal => "decimal",
            Encoding::Octal => "octal",
            Encoding::Reversed => "reversed",
            Encoding::Rot13 => "rot13",
        })
    }
}

/// A secret in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The secret's name.
    pub secret: Arc<str>,
    /// The disguise it wore.
    pub encoding: Encoding,
    /// The containers that it was in, outermost first.
    pub inside: Vec<Container>,
    /// How many bytes of the stream had been read when it was complete, the first time; for one in a container, where the
    /// outermost began.
    pub offset: u64,
}

/// Secrets, ready to be searched for. Made once per run; a clone is cheap.
#[derive(Clone)]
pub struct SecretSet {
    patterns: Arc<Patterns>,
    /// What all searches together may open containers with.
    budget: Arc<Budget>,
}

impl SecretSet {
    /// Makes names and values ready. A value that is empty, or white space only, is never found.
    pub fn new<N: Into<String>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let secrets = secrets.into_iter().map(|(name, value)| (Arc::from(name.into()), value));
        SecretSet { patterns: Arc::new(Patterns::new(secrets)), budget: Budget::new() }
    }

    /// Whether there is nothing to be found.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A search through one stream.
    pub fn scanner(&self) -> Scanner {
        Scanner::new(self.patterns.clone(), self.budget.clone())
    }

    /// A search through bytes that are all there, in the order in which the matches end.
    pub fn search(&self, bytes: &[u8]) -> Vec<Match> {
        self.search_whole(bytes).matches
    }

    /// The same, with what was not searched.
    pub(crate) fn search_whole(&self, bytes: &[u8]) -> Searched {
        let mut scanner = self.scanner();
        scanner.feed(bytes);
        scanner.finish()
    }

    /// Whether no search has anything open.
    #[cfg(any(test, redroom_fuzzing))]
    pub(crate) fn is_unused(&self) -> bool {
        self.budget.is_untouched()
    }

    /// Whether the bytes hold a secret as text, in no container: what [`SecretSet::redact`] would take out.
    pub fn is_in_text(&self, bytes: &[u8]) -> bool {
        redact::is_in(&self.patterns, bytes)
    }

    /// A search through a DNS name, given as its labels: with dots between them, and joined, as a payload is that was cut
    /// to fit. Resolvers change the letter case: plain text is found all the same, hex too, base64 only where the case was
    /// kept. Offsets count in the form that was found.
    pub fn search_name<L: AsRef<[u8]>>(&self, labels: &[L]) -> Searched {
        let mut dotted = self.scanner();
        let mut joined = self.scanner();
        for (index, label) in labels.iter().enumerate() {
            if index > 0 {
                dotted.feed(b".");
            }
            dotted.feed(label.as_ref());
            joined.feed(label.as_ref());
        }
        let mut searched = dotted.finish();
        let mut joined = joined.finish();
        joined.matches.retain(|found| !searched.is_known(&found.secret, found.encoding));
        searched.join(joined);
        searched
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
