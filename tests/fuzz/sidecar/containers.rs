//! What may be packed: whatever it is, the search comes to the same however it was cut and gives back what it took; and a
//! secret is found in every container that can be opened, or it is told that not all was searched.

use std::sync::LazyLock;

use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

use super::draw::{Draw, chunks};
use crate::search::{Container, Searched, SecretSet, Why};

const SECRET: &str = "PLATYPUS-7731";

pub(super) fn run(data: &[u8]) {
    search(data);
    packed(&mut Draw::new(data));
}

/// Made once: that takes longer than most inputs.
static SECRETS: LazyLock<SecretSet> = LazyLock::new(|| SecretSet::new([("it", SECRET), ("short", "ab")]));

fn search(bytes: &[u8]) -> Searched {
    let search = |chunks: Vec<&[u8]>| {
        let mut scanner = SECRETS.scanner();
        chunks.into_iter().for_each(|chunk| scanner.feed(chunk));
        scanner.finish()
    };
    let whole = search(vec![bytes]);
    let cut = search(chunks(bytes));
    // How far a bomb is followed depends on how much had been read of it. Whoever gave up has told so.
    let gave_up = |searched: &Searched| searched.unsearched.iter().any(|part| part.why == Why::TooLarge);
    assert!(cut == whole || gave_up(&cut) || gave_up(&whole), "{cut:?} where it was cut, else {whole:?}");
    assert!(SECRETS.is_unused(), "memory was not given back");
    assert!(whole.matches.iter().all(|found| found.inside.len() <= 6 && found.offset <= bytes.len() as u64));
    assert!(whole.unsearched.len() <= 32);
    whole
}

fn packed(draw: &mut Draw<'_>) {
    let (before, after) = (draw.take(60), draw.take(60));
    let mut bytes = [before, b"~", SECRET.as_bytes(), b"~", after].concat();
    let mut inside = Vec::new();
    for _ in 0..=draw.below(3) {
        let level = draw.byte() % 11;
        let (container, packed) = match draw.below(4) {
            0 => (Container::Gzip, gzip(&bytes, level)),
            1 => (Container::Zlib, zlib(&bytes, level)),
            2 => (Container::Zip, zip(&bytes, level, draw.below(2) == 0)),
            _ => (Container::Zstd, zstd(&bytes)),
        };
        inside.insert(0, container);
        bytes = [draw.take(20), &packed, draw.take(20)].concat();
    }
    let found = search(&bytes);
    let is_found = found.matches.iter().any(|found| &*found.secret == "it" && found.inside == inside);
    assert!(is_found || !found.unsearched.is_empty(), "{inside:?}: {found:?} in {}", bytes.escape_ascii());
}

fn gzip(bytes: &[u8], level: u8) -> Vec<u8> {
    let length = bytes.len() as u32;
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [&head[..], &compress_to_vec(bytes, level), &crc32(bytes).to_le_bytes(), &length.to_le_bytes()].concat()
}

/// With the first two bytes as everybody writes them.
fn zlib(bytes: &[u8], level: u8) -> Vec<u8> {
    let mut packed = compress_to_vec_zlib(bytes, level);
    packed[..2].copy_from_slice(&[0x78, [0x01, 0x5e, 0x9c, 0xda][usize::from(level % 4)]]);
    packed
}

/// One entry, its sizes in front of it or behind it.
fn zip(bytes: &[u8], level: u8, is_streamed: bool) -> Vec<u8> {
    let packed = compress_to_vec(bytes, level);
    let sizes = [crc32(bytes), packed.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
    let mut entry = [b"PK\x03\x04\x14\x00", &[if is_streamed { 8 } else { 0 }, 0, 8, 0, 0, 0, 0, 0][..]].concat();
    entry.extend(if is_streamed { vec![0; 12] } else { sizes.clone() });
    entry.extend(b"\x01\x00\x00\x00n");
    entry.extend(packed);
    if is_streamed {
        entry.extend([b"PK\x07\x08", &sizes[..]].concat());
    }
    entry
}

/// One frame of raw blocks.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    let mut blocks = bytes.chunks(1000).peekable();
    while let Some(block) = blocks.next() {
        let head = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}
