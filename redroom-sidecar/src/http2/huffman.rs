//! The code in which HTTP/2 writes strings (RFC 7541, appendix B). It is canonical: the lengths say all.

use std::sync::LazyLock;

/// How many bits each byte has.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code.
const LONGEST: usize = 30;

/// By length: the first code, and the bytes that have codes of this length.
static CODES: LazyLock<[(u32, Vec<u8>); LONGEST + 1]> = LazyLock::new(|| {
    let mut codes = [const { (0, Vec::new()) }; LONGEST + 1];
    let mut first = 0;
    for (length, code) in codes.iter_mut().enumerate() {
        let bytes: Vec<u8> = (0..=u8::MAX).filter(|&byte| usize::from(LENGTHS[usize::from(byte)]) == length).collect();
        let count = bytes.len() as u32;
        *code = (first, bytes);
        first = (first + count) << 1;
    }
    codes
});

/// What a string stands for, as far as it can be read.
pub(super) fn decode(coded: &[u8]) -> Vec<u8> {
    let codes = &*CODES;
    let mut decoded = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0);
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        let Some((first, bytes)) = codes.get(length) else { break };
        if let Some(&byte) = code.checked_sub(*first).and_then(|index| bytes.get(index as usize)) {
            decoded.push(byte);
            (code, length) = (0, 0);
        }
    }
    decoded
}

#[cfg(any(test, redroom_fuzzing))]
pub(crate) fn encode(text: &[u8]) -> Vec<u8> {
    let mut bits = Vec::new();
    for &byte in text {
        let length = usize::from(LENGTHS[usize::from(byte)]);
        let (first, bytes) = &CODES[length];
        let code = first + bytes.iter().position(|known| *known == byte).unwrap() as u32;
        bits.extend((0..length).rev().map(|at| (code >> at & 1) as u8));
    }
    bits.resize(bits.len().next_multiple_of(8), 1);
    bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | bit)).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn the_examples_of_the_standard_are_read() {
        for (coded, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
        ] {
            assert_eq!(decode(coded), text.as_bytes());
            assert_eq!(encode(text.as_bytes()), coded);
        }
    }

    #[test]
    fn every_byte_comes_back_and_noise_comes_to_an_end() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(decode(&encode(&all)), all);
        assert_eq!(decode(&[0xff; 64]), b"", "the end of a string");
    }
}
