//! The intake of a stream of bytes: searched whole, counted, and the first of it kept. And the findings of an
//! observation: which secret, in which disguise, in which part, each once.

use crate::search::{Match, Scanner, Searched, SecretSet};
use crate::wire::{Found, Octets, Part};

/// How much of a body is kept.
pub(crate) const KEPT: usize = 64 * 1024;

pub(crate) struct Intake {
    scanner: Scanner,
    kept: Vec<u8>,
    limit: usize,
    bytes: u64,
}

impl Intake {
    /// Keeps as much as belongs in a hit.
    pub(crate) fn new(secrets: &SecretSet) -> Self {
        Intake { scanner: secrets.scanner(), kept: Vec::new(), limit: KEPT, bytes: 0 }
    }

    /// Keeps nothing, for what is kept elsewhere.
    pub(crate) fn keeping_nothing(secrets: &SecretSet) -> Self {
        Intake { limit: 0, ..Intake::new(secrets) }
    }

    pub(crate) fn feed(&mut self, chunk: &[u8]) {
        self.scanner.feed(chunk);
        self.bytes += chunk.len() as u64;
        let room = self.limit - self.kept.len();
        self.kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn matches(&self) -> &[Match] {
        self.scanner.matches()
    }

    pub(crate) fn kept(&self) -> Octets {
        self.kept.clone().into()
    }

    pub(crate) fn truncated(&self) -> bool {
        self.bytes > self.kept.len() as u64
    }

    /// The stream is over: what was kept, what was found, and what was not searched.
    pub(crate) fn finish(self) -> (Octets, Searched) {
        (self.kept.into(), self.scanner.finish())
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
