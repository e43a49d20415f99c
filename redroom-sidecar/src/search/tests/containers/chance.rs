//! Containers made by chance, cut by chance.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::search::Match;

/// Bytes that are made of what containers are made of.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..100),
        prop::sample::select(vec![
            b"\x1f\x8b\x08".to_vec(),
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(),
            b"\x1f\x8b\x08\x1f".to_vec(),
            b"\x78\x9c".to_vec(),
            b"\x78\x01\x01\x05\0\xfa\xff".to_vec(),
            b"PK\x03\x04".to_vec(),
            b"\x28\xb5\x2f\xfd".to_vec(),
            b"\x28\xb5\x2f\xfd\x04\x58".to_vec(),
            b"BZh91AY&SY".to_vec(),
            b"H4sI".to_vec(),
            b"eJw".to_vec(),
            b"1f8b08".to_vec(),
            entry(0, 8),
            gzip(SECRET.as_bytes()),
            zlib(SECRET.as_bytes()),
            zip(SECRET.as_bytes()),
            STANDARD.encode(gzip(SECRET.as_bytes())).into_bytes(),
            hex(&zip(SECRET.as_bytes())).into_bytes(),
        ]),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn in_chunks(set: &SecretSet, text: &[u8], cuts: &[prop::sample::Index]) -> Searched {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.sort_unstable();
    let mut scanner = set.scanner();
    let mut start = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        scanner.feed(&text[start..cut]);
        start = cut;
    }
    scanner.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_chunks_tell_the_same(
        pieces in pieces(),
        packing in vec(prop::sample::select(WRAPPERS.to_vec()), 0..3),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let set = SecretSet::new([("it", SECRET)]);
        let text = packing.into_iter().fold(pieces, |content, (pack, _)| pack(&content));
        let (whole, parts) = (in_chunks(&set, &text, &[]), in_chunks(&set, &text, &cuts));
        // Which of too many are left out depends on which are open at the same time.
        if ![&whole, &parts].iter().any(|it| it.unsearched.iter().any(|told| told.why == Why::TooMany)) {
            prop_assert_eq!(parts, whole);
        }
        prop_assert!(set.is_unused());
    }

    #[test]
    fn a_packed_secret_in_noise_is_found(
        before in vec(any::<u8>(), 0..300),
        after in vec(any::<u8>(), 0..300),
        content in vec(any::<u8>(), 0..2000),
        packing in vec(prop::sample::select(WRAPPERS.to_vec()), 1..4),
    ) {
        let content = [&content[..], b"\n~~~~", SECRET.as_bytes(), b"~"].concat();
        let expected: Vec<_> = packing.iter().rev().filter_map(|(_, name)| *name).collect();
        let packed = packing.iter().fold(content, |content, (pack, _)| pack(&content));
        let text = [&before[..], &packed, &after].concat();
        let found: Vec<Match> = SecretSet::new([("it", SECRET)]).search(&text);
        prop_assert!(found.iter().any(|found| found.encoding == Plain && found.inside == expected), "{expected:?}: {found:?}");
    }
}
