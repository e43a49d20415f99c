//! What a client sends in HTTP/2: whatever it is, the search comes to the same however it was cut; and a secret in a body or
//! a head is found whatever frames it is spread over and whatever comes between them.

use std::sync::LazyLock;

use super::draw::{Draw, chunks};
use crate::http2::{Frames, huffman};
use crate::search::SecretSet;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SECRET: &str = "PLATYPUS-7731";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

pub(super) fn run(data: &[u8]) {
    any_bytes(data);
    any_bytes(&[PREFACE, data].concat());
    spread(&mut Draw::new(data));
}

/// Made once: that takes longer than most inputs.
static SECRETS: LazyLock<SecretSet> = LazyLock::new(|| SecretSet::new([("it", SECRET), ("short", "ab")]));

/// What is found in frames, and in the rest.
fn found<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Vec<String>) {
    let (mut frames, mut rest) = (Frames::new(&SECRETS), SECRETS.scanner());
    for chunk in chunks {
        frames.feed(chunk, &mut rest);
    }
    let told = |found: crate::search::Match| format!("{} {} {:?}", found.secret, found.encoding, found.inside);
    let mut in_frames: Vec<String> = frames.finish().matches.into_iter().map(told).collect();
    in_frames.sort();
    (in_frames, rest.finish().matches.into_iter().map(told).collect())
}

fn any_bytes(sent: &[u8]) {
    assert_eq!(found(chunks(sent)), found([sent]));
}

/// A secret in pieces, in what a client may send beside it.
fn spread(draw: &mut Draw<'_>) {
    let in_head = draw.below(2) == 1;
    let whole = if in_head { head(draw) } else { SECRET.as_bytes().to_vec() };
    let mut sent = PREFACE.to_vec();
    let mut left = &whole[..];
    let mut first = true;
    while !left.is_empty() {
        if first || !in_head {
            between(draw, &mut sent);
        }
        let (piece, after) = left.split_at((1 + draw.below(whole.len())).min(left.len()));
        left = after;
        let kind = match (in_head, first) {
            (false, _) => DATA,
            (true, true) => HEADERS,
            (true, false) => CONTINUATION,
        };
        let end = if in_head && left.is_empty() && draw.below(2) == 0 { END_HEADERS } else { 0 };
        let shape = match kind {
            CONTINUATION => 0,
            DATA => [0, PADDED][draw.below(2)],
            _ => [0, PADDED, PRIORITY, PADDED | PRIORITY][draw.below(4)],
        };
        let padding = draw.take(20);
        let mut payload = Vec::new();
        payload.extend((shape & PADDED != 0).then_some(padding.len() as u8));
        payload.extend(vec![0; if shape & PRIORITY != 0 { 5 } else { 0 }]);
        payload.extend_from_slice(piece);
        payload.extend_from_slice(if shape & PADDED != 0 { padding } else { &[] });
        sent.extend(frame(kind, end | shape, 1, &payload));
        first = false;
    }
    let (in_frames, _) = found(chunks(&sent));
    assert!(in_frames.iter().any(|found| found == "it plain []"), "{in_frames:?} in {}", sent.escape_ascii());
}

/// A head with the secret as a value, in Huffman's code or as it is, behind what refers to tables.
fn head(draw: &mut Draw<'_>) -> Vec<u8> {
    let mut head = Vec::new();
    for _ in 0..draw.below(4) {
        match draw.below(4) {
            // One out of a table, a change of its size, a value for a name out of a table.
            0 => head.push(0x80 | (1 + draw.byte() % 61)),
            1 => head.push(0x20 | (draw.byte() % 31)),
            2 => head.extend([0x40 | (1 + draw.byte() % 61), 1, b'v']),
            // Numbers that need a byte more: a name far down in the table, a long value.
            _ => head.extend([&[0x7f, draw.byte() % 128, 0x7f, 73][..], &[b'v'; 200]].concat()),
        }
    }
    head.extend([[0, 0x10, 0x40][draw.below(3)], 1, b'x']);
    let coded = if draw.below(2) == 0 { huffman::encode(SECRET.as_bytes()) } else { SECRET.as_bytes().to_vec() };
    head.push(if coded == SECRET.as_bytes() { 0 } else { 0x80 } | coded.len() as u8);
    head.extend(coded);
    head
}

/// Frames of other streams and kinds: fewer other bodies than are followed at once.
fn between(draw: &mut Draw<'_>, sent: &mut Vec<u8>) {
    for _ in 0..draw.below(8) {
        if draw.is_empty() {
            break;
        }
        let kind = [DATA, 2, 3, 4, 6, 7, 8, 0x42][draw.below(8)];
        let stream = 3 + 2 * draw.below(6) as u32;
        sent.extend(frame(kind, draw.byte() & 1, stream, draw.take(30)));
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
