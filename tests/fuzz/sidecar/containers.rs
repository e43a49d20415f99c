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
    broken(&mut Draw::new(data));
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
        let byte = draw.byte();
        let (level, extras) = (byte % 11, byte / 11);
        let (container, packed) = match draw.below(4) {
            0 => (Container::Gzip, gzip(&bytes, level, extras)),
            1 => (Container::Zlib, zlib(&bytes, level)),
            2 => (Container::Zip, zip(&bytes, level, extras, draw.below(2) == 0)),
            _ => (Container::Zstd, zstd(&bytes)),
        };
        inside.insert(0, container);
        bytes = [draw.take(20), &packed, draw.take(20)].concat();
    }
    let found = search(&bytes);
    let is_found = found.matches.iter().any(|found| &*found.secret == "it" && found.inside == inside);
    assert!(is_found || !found.unsearched.is_empty(), "{inside:?}: {found:?} in {}", bytes.escape_ascii());
}

/// A stream that breaks off, or is damaged, in its second block: what it held by then is found, and it is told that there was more.
fn broken(draw: &mut Draw<'_>) {
    let text = [draw.take(60), b"~", SECRET.as_bytes(), b"~", draw.take(60)].concat();
    let block = |is_last: bool, content: &[u8], is_right: bool| {
        let length = content.len() as u16;
        let check = if is_right { !length } else { length };
        [&[u8::from(is_last)][..], &length.to_le_bytes(), &check.to_le_bytes(), content].concat()
    };
    let head = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &block(false, b"~~~~", true)].concat();
    let rest = block(true, &text, draw.below(2) == 0);
    let bytes = [&head[..], &rest[..rest.len() - draw.below(rest.len() + 1)]].concat();
    let found = search(&bytes);
    let is_found = found.matches.iter().any(|found| &*found.secret == "it" && found.inside == [Container::Gzip]);
    assert!(is_found || !found.unsearched.is_empty(), "{found:?} in {}", bytes.escape_ascii());
}

/// With any of the fields that may stand in its head.
fn gzip(bytes: &[u8], level: u8, fields: u8) -> Vec<u8> {
    let length = bytes.len() as u32;
    let mut head = vec![0x1f, 0x8b, 8, fields, 0, 0, 0, 0, 0, 255];
    let all: [(u8, &[u8]); 4] = [(4, b"\x05\x00\x0800\x01\x00"), (8, b"name\0"), (16, b"what it is\0"), (2, b"\0\0")];
    for (field, content) in all {
        head.extend_from_slice(if fields & field != 0 { content } else { b"" });
    }
    [&head[..], &compress_to_vec(bytes, level), &crc32(bytes).to_le_bytes(), &length.to_le_bytes()].concat()
}

/// With the first two bytes as everybody writes them.
fn zlib(bytes: &[u8], level: u8) -> Vec<u8> {
    let mut packed = compress_to_vec_zlib(bytes, level);
    packed[..2].copy_from_slice(&[0x78, [0x01, 0x5e, 0x9c, 0xda][usize::from(level % 4)]]);
    packed
}

/// One entry, its sizes in front of it or behind it, with so many bytes beside its name.
fn zip(bytes: &[u8], level: u8, extra: u8, is_streamed: bool) -> Vec<u8> {
    let packed = compress_to_vec(bytes, level);
    let sizes = [crc32(bytes), packed.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
    let mut entry = [b"PK\x03\x04\x14\x00", &[if is_streamed { 8 } else { 0 }, 0, 8, 0, 0, 0, 0, 0][..]].concat();
    entry.extend(if is_streamed { vec![0; 12] } else { sizes.clone() });
    entry.extend([1, 0, extra, 0, b'n']);
    entry.extend(vec![0; extra.into()]);
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
