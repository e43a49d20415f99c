//! HTTP/2 as a client sends it. A server shows nobody the streams that it turns away, so that frames are read here once
//! more, for the search alone: the strings of heads are decoded, bodies are searched stream by stream.
//!
//! Knows nothing of requests. What it does not understand is searched as it is, by whoever feeds it.

mod head;
pub(crate) mod huffman;

use std::collections::VecDeque;

use crate::search::{Scanner, Searched, SecretSet};

/// How a connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest frame that a server takes which asks for no longer ones.
const LONGEST: usize = 16 * 1024;

/// How many bodies are followed at once. Of one that was not heard of for longest, what came is searched, and what comes is
/// another body: a secret that is cut there is not found.
const BODIES: usize = 8;

/// The longest head that is decoded: more than a server takes.
const HEAD: usize = 512 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The frames of a connection.
pub(crate) struct Frames {
    secrets: SecretSet,
    place: Place,
    /// What of a head has come.
    head: Vec<u8>,
    /// Made when there is a head.
    heads: Option<Scanner>,
    /// By stream, that which was heard of last at the end.
    bodies: VecDeque<(u32, Scanner)>,
    searched: Searched,
}

/// Where in a connection its next byte stands.
enum Place {
    /// In its beginning, so many bytes of which have come.
    Preface(usize),
    /// In what comes before a frame's payload.
    Header(Vec<u8>),
    Payload(Payload),
    /// It is no HTTP/2, or no more.
    Beyond,
}

struct Payload {
    kind: u8,
    flags: u8,
    stream: u32,
    /// How many bytes are to come.
    left: usize,
    /// Of a body's frame: how much of what is left is padding, once that is known.
    padding: Option<usize>,
    /// Of a head's frame: what has come.
    part: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(secrets: &SecretSet) -> Self {
        Frames {
            secrets: secrets.clone(),
            place: Place::Preface(0),
            head: Vec::new(),
            heads: None,
            bodies: VecDeque::new(),
            searched: Searched::default(),
        }
    }

    /// Takes what a client sent. All but bodies goes to `rest`, too.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], rest: &mut Scanner) {
        while !bytes.is_empty() {
            let taken = match &mut self.place {
                Place::Beyond => bytes.len(),
                Place::Preface(known) => (PREFACE.len() - *known).min(bytes.len()),
                Place::Header(header) => (9 - header.len()).min(bytes.len()),
                Place::Payload(payload) => payload.left.min(bytes.len()),
            };
            let (piece, after) = bytes.split_at(taken);
            bytes = after;
            match &mut self.place {
                Place::Payload(payload) if payload.kind == DATA => {
                    let mut payload = std::mem::replace(payload, Payload::none());
                    self.body(&mut payload, piece, rest);
                    self.place = Place::after(payload);
                    continue;
                }
                Place::Beyond => {}
                Place::Preface(known) => {
                    let expected = &PREFACE[*known..*known + taken];
                    *known += taken;
                    if piece != expected {
                        self.place = Place::Beyond;
                    } else if *known == PREFACE.len() {
                        self.place = Place::Header(Vec::new());
                    }
                }
                Place::Header(header) => {
                    header.extend_from_slice(piece);
                    if let &[a, b, c, kind, flags, d, e, f, g] = &header[..] {
                        let stream = u32::from_be_bytes([d, e, f, g]);
                        let left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                        self.place = match left {
                            0..=LONGEST => self.begin(kind, flags, stream & (u32::MAX >> 1), left),
                            _ => Place::Beyond,
                        };
                    }
                }
                Place::Payload(payload) => {
                    payload.left -= taken;
                    if matches!(payload.kind, HEADERS | CONTINUATION) {
                        payload.part.extend_from_slice(piece);
                    }
                    if payload.left == 0 {
                        let payload = std::mem::replace(payload, Payload::none());
                        self.end_of_head(&payload);
                        self.place = Place::Header(Vec::new());
                    }
                }
            }
            rest.feed(piece);
        }
    }

    /// The connection is over: what the search of its heads and bodies came to.
    pub(crate) fn finish(mut self) -> Searched {
        self.decode_head();
        for scanner in self.bodies.into_iter().map(|(_, body)| body).chain(self.heads) {
            self.searched.join(scanner.finish());
        }
        self.searched
    }

    fn begin(&mut self, kind: u8, flags: u8, stream: u32, left: usize) -> Place {
        let padding = (kind == DATA && flags & PADDED == 0).then_some(0);
        let payload = Payload { kind, flags, stream, left, padding, part: Vec::new() };
        if left == 0 {
            if kind == DATA && flags & END_STREAM != 0 {
                self.end_body(stream);
            }
            self.end_of_head(&payload);
        }
        Place::after(payload)
    }

    fn body(&mut self, payload: &mut Payload, mut piece: &[u8], rest: &mut Scanner) {
        payload.left -= piece.len();
        if payload.padding.is_none()
            && let Some((&length, after)) = piece.split_first()
        {
            payload.padding = Some(usize::from(length));
            piece = after;
        }
        let ahead = payload.padding.unwrap_or_default().saturating_sub(payload.left);
        let (content, padding) = piece.split_at(piece.len().saturating_sub(ahead));
        rest.feed(padding);
        if !content.is_empty() {
            let mut body = match self.bodies.iter().position(|(stream, _)| *stream == payload.stream) {
                Some(at) => self.bodies.remove(at).map(|(_, body)| body),
                None => None,
            }
            .unwrap_or_else(|| self.secrets.scanner());
            body.feed(content);
            self.bodies.push_back((payload.stream, body));
            if self.bodies.len() > BODIES
                && let Some((_, body)) = self.bodies.pop_front()
            {
                self.searched.join(body.finish());
            }
        }
        if payload.left == 0 && payload.flags & END_STREAM != 0 {
            self.end_body(payload.stream);
        }
    }

    fn end_body(&mut self, stream: u32) {
        if let Some(at) = self.bodies.iter().position(|(known, _)| *known == stream)
            && let Some((_, body)) = self.bodies.remove(at)
        {
            self.searched.join(body.finish());
        }
    }

    /// A frame has come to its end.
    fn end_of_head(&mut self, payload: &Payload) {
        let mut part = &payload.part[..];
        match payload.kind {
            HEADERS => {
                self.decode_head();
                if payload.flags & PADDED != 0
                    && let Some((&padding, after)) = part.split_first()
                {
                    part = &after[..after.len().saturating_sub(usize::from(padding))];
                }
                if payload.flags & PRIORITY != 0 {
                    part = part.get(5..).unwrap_or_default();
                }
            }
            CONTINUATION => {}
            _ => return,
        }
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&part[..part.len().min(room)]);
        if payload.flags & END_HEADERS != 0 {
            self.decode_head();
        }
    }

    fn decode_head(&mut self) {
        for (name, value) in head::strings(&std::mem::take(&mut self.head)) {
            let heads = self.heads.get_or_insert_with(|| self.secrets.scanner());
            heads.feed(&[&name, &b": "[..], &value, b"\n"].concat());
        }
    }
}

impl Place {
    fn after(payload: Payload) -> Self {
        if payload.left == 0 { Place::Header(Vec::new()) } else { Place::Payload(payload) }
    }
}

impl Payload {
    fn none() -> Self {
        Payload { kind: u8::MAX, flags: 0, stream: 0, left: 0, padding: None, part: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
