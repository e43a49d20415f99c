//! What containers may cost, in memory and in time, and that what would cost more is told.

use super::*;

#[test]
fn a_bomb_is_searched_within_bounds_and_told() {
    let zeros = vec![0; 4 << 20];
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let set = SecretSet::new([("it", SECRET)]);
    for bomb in [bomb.clone(), gzip(&bomb), STANDARD.encode(&bomb).into_bytes()] {
        let mut scanner = set.scanner();
        scanner.feed(&bomb);
        let searched = scanner.finish();
        assert!(!searched.unsearched.is_empty(), "{searched:?}");
        assert!(searched.unsearched.iter().all(|told| told.why == Why::TooLarge), "{searched:?}");
    }
    // What comes after it is searched all the same.
    let after = [&bomb[..], SECRET.as_bytes()].concat();
    assert_eq!(set.search(&after).len(), 1);
    assert!(set.is_unused());
}

#[test]
fn without_memory_it_is_told_that_nothing_was_opened() {
    let set = SecretSet::new([("it", SECRET)]);
    set.budget.exhaust();
    for packed in [gzip(&text(SECRET)), [b"in the middle ", &zlib(&text(SECRET))[..]].concat()] {
        let mut scanner = set.scanner();
        scanner.feed(&packed);
        let searched = scanner.finish();
        assert_eq!(searched.matches, []);
        assert_eq!(searched.unsearched[0].why, Why::TooMany);
    }
}

#[test]
fn all_streams_together_take_no_more_memory_than_there_is() {
    let set = SecretSet::new([("it", SECRET)]);
    let packed = gzip(&gzip(&gzip(private_key().as_bytes())));
    let mut scanners: Vec<_> = (0..1000).map(|_| set.scanner()).collect();
    scanners.iter_mut().for_each(|scanner| scanner.feed(&packed[..packed.len() / 2]));
    let outcomes: Vec<_> = scanners.into_iter().map(|scanner| scanner.finish()).collect();
    let refused = |searched: &Searched| searched.unsearched.iter().any(|told| told.why == Why::TooMany);
    assert!(!refused(&outcomes[0]) && refused(&outcomes[999]));
    assert!(set.is_unused());
}

#[test]
fn a_container_behind_more_beginnings_than_are_followed_is_told() {
    let packed = zlib(&text(SECRET));
    // A head with 64 KiB of extra fields, which is waited for.
    let decoy = b"\x1f\x8b\x08\x04\0\0\0\0\0\0\xff\xff";
    let behind = |decoys: usize| searched(&[&decoy.repeat(decoys)[..], &packed].concat());
    assert_eq!(behind(2).matches.len(), 1, "{:?}", behind(2));
    let hidden = behind(3);
    assert!(hidden.matches.is_empty() && hidden.unsearched.iter().any(|part| part.why == Why::TooMany), "{hidden:?}");
}

#[test]
fn a_container_that_makes_room_for_beginnings_inside_it_is_told() {
    let decoy = b"\x1f\x8b\x08\x04\0\0\0\0\0\0\xff\xff";
    // As it is, in a block of its own; what comes after is compressed.
    let stored = |decoys: &[u8]| {
        let length = decoys.len() as u16;
        [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), decoys].concat()
    };
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&text(SECRET)).unwrap();
    let packed = packed.finish().unwrap();
    let behind = |decoys: usize| searched(&[b"~\x78\x9c", &stored(&decoy.repeat(decoys))[..], &packed].concat());
    assert_eq!(behind(2).matches.len(), 1, "{:?}", behind(2));
    let hidden = behind(3);
    assert!(hidden.matches.is_empty() && hidden.unsearched.iter().any(|part| part.why == Why::TooMany), "{hidden:?}");
}

#[test]
fn text_that_looks_like_a_beginning_costs_little_and_is_not_told() {
    for unit in ["x^2 + ", "x\u{1}", "eJw ", "\x1f\u{8b}\x08", "789c ", "PK\x03\x04", "x^", "H4sI ", "504b0304 "] {
        let set = SecretSet::new([("it", SECRET)]);
        let begun = std::time::Instant::now();
        let text = [unit.repeat(100_000).as_bytes(), SECRET.as_bytes()].concat();
        assert_eq!(set.search(&text).len(), 1, "{unit:?}");
        assert!(begun.elapsed().as_secs() < 10, "{unit:?}: {:?}", begun.elapsed());
    }
}
