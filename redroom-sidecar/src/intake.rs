//! The intake of a stream of bytes: searched whole, counted, and the first of it kept. And the findings of an
//! observation: which secret, in which disguise, in which part, each once.

use std::net::IpAddr;

use http::header::CONTENT_ENCODING;

use crate::search::{Container, Match, Scanner, Searched, SecretSet, Unsearched, Why, note_unsearched};
use crate::wire::{Found, Hit, Octets, Part};

/// How much of a body is kept.
pub(crate) const KEPT: usize = 64 * 1024;

/// How many of the first bytes are kept in any case.
const START: usize = 2;

pub(crate) struct Intake {
    scanner: Scanner,
    /// The first bytes, by which some codings are known.
    start: Vec<u8>,
    kept: Vec<u8>,
    limit: usize,
    bytes: u64,
}

impl Intake {
    /// Keeps as much as belongs in a hit.
    pub(crate) fn new(secrets: &SecretSet) -> Self {
        Intake { scanner: secrets.scanner(), start: Vec::new(), kept: Vec::new(), limit: KEPT, bytes: 0 }
    }

    /// Keeps nothing, for what is kept elsewhere.
    pub(crate) fn keeping_nothing(secrets: &SecretSet) -> Self {
        Intake { limit: 0, ..Intake::new(secrets) }
    }

    pub(crate) fn feed(&mut self, chunk: &[u8]) {
        self.scanner.feed(chunk);
        self.start.extend(chunk.iter().take(START - self.start.len()));
        self.bytes += chunk.len() as u64;
        let room = self.limit - self.kept.len();
        self.kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What could not be searched of a body with these headers, because of the coding that it is in.
    pub(crate) fn closed(&self, headers: &[(String, Octets)]) -> Option<Unsearched> {
        let coding = if self.bytes == 0 { None } else { closed_coding(headers, &self.start) };
        coding.map(|coding| Unsearched::whole(coding, Why::Unsupported))
    }

    pub(crate) fn matches(&self) -> &[Match] {
        self.scanner.matches()
    }

    /// What came so far becomes a hit's body. Returns whether a sighting in it was new.
    pub(crate) fn tell(&self, hit: &mut Hit) -> bool {
        hit.body = self.kept.clone().into();
        self.measure(hit);
        note(&mut hit.secrets, Part::Body, self.matches())
    }

    /// The stream is over, and is a hit's body.
    pub(crate) fn fill(self, hit: &mut Hit) {
        self.measure(hit);
        hit.body = self.kept.into();
        note_searched(hit, Part::Body, self.scanner.finish());
    }

    /// The stream is over: what was found, and what was not searched.
    pub(crate) fn finish(self) -> Searched {
        self.scanner.finish()
    }

    fn measure(&self, hit: &mut Hit) {
        hit.body_bytes = self.bytes;
        hit.truncated = self.bytes > self.kept.len() as u64;
    }
}

/// Notes sightings in a part, each once. Returns whether one was new.
pub(crate) fn note(secrets: &mut Vec<Found>, part: Part, matches: &[Match]) -> bool {
    let before = secrets.len();
    for found in matches {
        let found =
            Found { secret: found.secret.to_string(), encoding: found.encoding, inside: found.inside.clone(), part };
        if !secrets.contains(&found) {
            secrets.push(found);
        }
    }
    secrets.len() > before
}

/// Notes what a search through a part of a hit came to.
pub(crate) fn note_searched(hit: &mut Hit, part: Part, searched: Searched) {
    note(&mut hit.secrets, part, &searched.matches);
    note_unsearched(&mut hit.unsearched, searched.unsearched);
}

/// Notes what an address says by itself: an IPv6 address has room for sixteen bytes.
pub(crate) fn note_address(secrets: &mut Vec<Found>, set: &SecretSet, address: IpAddr) {
    if let IpAddr::V6(address) = address {
        note(secrets, Part::Host, &set.search(&address.octets()));
    }
}

/// What a body says of itself that it is in, where that has no mark to be recognised by and cannot be opened.
fn closed_coding(headers: &[(String, Octets)], start: &[u8]) -> Option<Container> {
    let codings = headers.iter().filter(|(name, _)| name == CONTENT_ENCODING.as_str());
    let mut codings = codings.flat_map(|(_, value)| value.as_bytes().split(|&byte| byte == b','));
    codings.find_map(|coding| match &coding.trim_ascii().to_ascii_lowercase()[..] {
        b"br" => Some(Container::Brotli),
        b"compress" | b"x-compress" | b"dcb" | b"dcz" | b"exi" | b"aes128gcm" => Some(Container::ContentCoding),
        // Of no registry, and spoken all the same.
        b"snappy" | b"x-snappy" | b"x-snappy-framed" | b"lzma" | b"x-lzma" => Some(Container::ContentCoding),
        // By the standard that is zlib; some send it bare.
        b"deflate" if !is_zlib(start) => Some(Container::ContentCoding),
        _ => None,
    })
}

fn is_zlib(start: &[u8]) -> bool {
    matches!(start, [first, second, ..] if first & 0xf == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}
