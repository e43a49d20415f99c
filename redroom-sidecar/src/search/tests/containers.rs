//! Containers: what is in them is found, what is not searched is told, and neither costs more than it may.

use std::io::Write as _;

use ::flate2::Compression;
use ::flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::search::{Container, Match, Searched, Why};

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ::ruzstd::encoding::compress_to_vec(content, ::ruzstd::encoding::CompressionLevel::Fastest)
}

/// A ZIP file of one entry, as `zip -` writes it: the sizes come after the content.
fn zip(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    [entry(8, 8), encoder.finish().unwrap(), b"PK\x07\x08............PK\x01\x02".to_vec()].concat()
}

/// A local header, of a file named `name.txt` with three bytes of extra fields.
fn entry(flags: u8, method: u8) -> Vec<u8> {
    let mut header = b"PK\x03\x04\x14\0".to_vec();
    header.extend([flags, 0, method, 0]);
    header.extend([0; 16]);
    header.extend(b"\x08\0\x03\0name.txtext");
    header
}

fn stored(content: &[u8]) -> Vec<u8> {
    [&entry(0, 0), content, b"PK\x01\x02"].concat()
}

/// A tar file of two files.
fn tar(content: &[u8]) -> Vec<u8> {
    let member = |name: &str, content: &[u8]| {
        let mut block = vec![0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[257..262].copy_from_slice(b"ustar");
        block.extend(content);
        block.resize(block.len().next_multiple_of(512), 0);
        block
    };
    [member("README.md", b"# Calculator\n"), member("content", content), vec![0; 1024]].concat()
}

fn text(content: &str) -> Vec<u8> {
    // Enough that it is compressed, and not stored.
    format!("{}API_TOKEN={content}\nOTHER=1\n", "# a comment that says so\n".repeat(9)).into_bytes()
}

fn searched(text: &[u8]) -> Searched {
    let mut scanner = SecretSet::new([("it", SECRET)]).scanner();
    scanner.feed(text);
    scanner.finish()
}

/// Encodings and ways of what is found of the secret, the same however the text is cut.
fn ways(text: &[u8]) -> Vec<(Encoding, Vec<Container>)> {
    let set = SecretSet::new([("it", SECRET)]);
    let whole = searched(text);
    for size in [1, 2, 3, 7, 64, 1000] {
        let mut scanner = set.scanner();
        text.chunks(size).for_each(|chunk| scanner.feed(chunk));
        assert_eq!(scanner.finish(), whole, "in chunks of {size}");
    }
    whole.matches.into_iter().map(|found| (found.encoding, found.inside)).collect()
}

fn way(text: &[u8]) -> (Encoding, Vec<Container>) {
    let mut ways = ways(text);
    assert_eq!(ways.len(), 1, "{ways:?} in {}", String::from_utf8_lossy(text));
    ways.remove(0)
}

fn unsearched(text: &[u8]) -> Vec<String> {
    searched(text).unsearched.iter().map(ToString::to_string).collect()
}

type Wrapper = (fn(&[u8]) -> Vec<u8>, Option<Container>);

const WRAPPERS: [Wrapper; 6] = [
    (gzip, Some(Container::Gzip)),
    (zlib, Some(Container::Zlib)),
    (zip, Some(Container::Zip)),
    (zstd, Some(Container::Zstd)),
    (stored, None),
    (tar, None),
];

#[test]
fn every_encoding_is_found_in_every_container_to_the_third_depth() {
    let utf16: Vec<u8> = SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let encodings: [(Encoding, Vec<u8>); 6] = [
        (Plain, text(SECRET)),
        (CaseInsensitive, text("platypus-7731")),
        (Url, text("PLATYPUS%2D7731")),
        (Hex, text(&hex(SECRET.as_bytes()))),
        (Base64, text(&STANDARD.encode(SECRET))),
        (Utf16, [b"\xff\xfe", &utf16[..]].concat()),
    ];
    for (encoding, content) in encodings {
        for (first, first_name) in WRAPPERS {
            for (second, second_name) in WRAPPERS {
                for (third, third_name) in WRAPPERS {
                    let packed = third(&second(&first(&content)));
                    let expected: Vec<_> = [third_name, second_name, first_name].into_iter().flatten().collect();
                    let found = searched(&packed);
                    // A container that does not get smaller is stored in the next one, where it is seen as well.
                    let told = found.matches.iter().any(|it| (it.encoding, &it.inside) == (encoding, &expected));
                    assert!(told, "{encoding} in {expected:?}: {found:?}");
                    assert_eq!(found.unsearched, [], "{expected:?}");
                }
            }
        }
    }
}

#[test]
fn a_container_is_found_wherever_it_begins() {
    let packed = gzip(&text(SECRET));
    let multipart = [b"--x\r\nContent-Type: application/octet-stream\r\n\r\n", &packed[..], b"\r\n--x--\r\n"].concat();
    assert_eq!(way(&packed), (Plain, vec![Container::Gzip]));
    assert_eq!(way(&multipart), (Plain, vec![Container::Gzip]));
    // Members behind each other, the second with the secret.
    let members = [gzip(b"nothing"), packed.clone()].concat();
    assert_eq!(way(&members), (Plain, vec![Container::Gzip]));
    assert_eq!(searched(&members).matches[0].offset, gzip(b"nothing").len() as u64, "where the member begins");
    // A pack of git: objects one after the other, each behind a few bytes of head.
    let pack = [b"PACK\0\0\0\x02\0\0\0\x02\x95\x0a", &zlib(b"tree")[..], b"\xb5\x02", &zlib(&text(SECRET))].concat();
    assert_eq!(way(&pack), (Plain, vec![Container::Zlib]));
    // An object of its own.
    assert_eq!(way(&zlib(&[b"blob 42\0", &text(SECRET)[..]].concat())), (Plain, vec![Container::Zlib]));
}

#[test]
fn a_secret_across_members_of_tar_and_windows_of_deflate_is_found() {
    let far = [vec![b'a'; 32_760], text(SECRET), vec![b'b'; 100_000], text("platypus-7731")].concat();
    assert_eq!(ways(&gzip(&far)), [(Plain, vec![Container::Gzip]), (CaseInsensitive, vec![Container::Gzip])]);
}

#[test]
fn a_container_in_text_is_found_in_every_notation() {
    let wrap = |text: &str, line_end: &str| wrapped(text, 76, line_end);
    for (pack, container) in
        [(gzip as fn(&[u8]) -> Vec<u8>, Container::Gzip), (zip, Container::Zip), (zlib, Container::Zlib)]
    {
        let packed = pack(&[text(SECRET), private_key().into_bytes()].concat());
        let base64 = STANDARD.encode(&packed);
        let digits = hex(&packed);
        let form: String = url::form_urlencoded::byte_serialize(base64.as_bytes()).collect();
        let json = serde_json::json!({ "f": wrap(&base64, "\n") }).to_string();
        for notation in [
            base64.clone(),
            URL_SAFE_NO_PAD.encode(&packed),
            wrap(&base64, "\n"),
            wrap(&base64, "\r\n"),
            wrap(&base64, "\n    "),
            format!("data={form}&x=1"),
            format!("data={}&x=1", form.replace('%', "%25")),
            json.clone(),
            serde_json::json!({ "again": json }).to_string(),
            format!("{{\"f\":\"{}\"}}", base64.replace('/', "\\/").replace('+', "\\u002B")),
            format!("GET /{}", URL_SAFE_NO_PAD.encode(&packed)),
            format!("{base64}\n{base64}"),
        ] {
            assert_eq!(way(notation.as_bytes()), (Plain, vec![Container::Base64, container]), "{notation}");
        }
        for notation in [
            digits.clone(),
            digits.to_ascii_uppercase(),
            wrap(&digits, "\n"),
            format!("0x{digits}"),
            packed.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
            packed.iter().map(|byte| format!("0x{byte:02x}, ")).collect(),
            packed.iter().map(|byte| format!("{byte:02x} ")).collect(),
            serde_json::json!({ "f": wrap(&digits, "\n") }).to_string(),
        ] {
            assert_eq!(way(notation.as_bytes()), (Plain, vec![Container::Hex, container]), "{notation}");
        }
    }
}

#[test]
fn a_frame_that_the_zstd_program_wrote_is_opened_and_searched_to_where_it_breaks_off() {
    let digits = "28b52ffd0458a504004245121970c73aecd63ad06822680fd9944822b08f504a961e55834e0da84f89100c1681a9672d00c6\
        09b042b3d4ffffff6fdbb66db76ddb564912721877b3c5075183cfa521dd218b6cf1c1272080a3d2039ccc7766b3986f6667\
        99cfcc6631dfcccc32dfccce329f99cdf27c37676673969af3d19cd9cc5964ce17736630677939838b7708830872108608e4\
        10c6109190d80409e5ae9e";
    let frame: Vec<u8> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    assert_eq!(way(&frame), (Plain, vec![Container::Zstd]));
    assert_eq!(searched(&frame).unsearched, []);

    // Blocks of 128 KiB: the first is whole.
    let long = zstd(&[&text(SECRET)[..], &private_key().repeat(60).into_bytes()].concat());
    let cut = &long[..long.len() * 3 / 4];
    assert_eq!(way(cut), (Plain, vec![Container::Zstd]));
    assert_eq!(unsearched(cut), ["zstd is incomplete: searched as far as it goes"]);

    // A window of 128 MiB, as `--long=27` asks for.
    assert_eq!(unsearched(b"\x28\xb5\x2f\xfd\x04\x88rest"), ["zstd is too large to be searched to its end"]);
}

#[test]
fn a_container_in_the_middle_of_base64_is_found_at_every_alignment() {
    for before in ["", "a", "ab", "abc"] {
        let packed = STANDARD.encode([before.as_bytes(), &gzip(&text(SECRET)), b"after"].concat());
        assert_eq!(way(packed.as_bytes()), (Plain, vec![Container::Base64, Container::Gzip]), "after {before:?}");
    }
}

#[test]
fn text_and_containers_may_take_turns() {
    let once = STANDARD.encode(gzip(&text(SECRET)));
    let twice = STANDARD.encode(gzip(once.as_bytes()));
    let inside = vec![Container::Base64, Container::Gzip, Container::Base64, Container::Gzip];
    assert_eq!(way(twice.as_bytes()), (Plain, inside));
}

#[test]
fn what_lies_deeper_than_the_third_is_told() {
    let four = gzip(&gzip(&gzip(&gzip(&text(SECRET)))));
    let told = unsearched(&four);
    assert!(told.contains(&"gzip inside gzip inside gzip inside gzip lies too deep".to_owned()), "{told:?}");
}

#[test]
fn what_looks_like_a_beginning_hides_none_that_stands_in_the_same_text() {
    let content = gzip(&text(SECRET));
    for (decoy, armour) in ["UmFyx", "H4sIx", "H4sIxUmFy", "QlpoUmFyxH4sI", "Amid/UmFy/text/that/goes/on"]
        .map(|decoy| (decoy, STANDARD.encode(&content)))
        .into_iter()
        .chain(["1f8b080", "526172a", "377abc0526172"].map(|decoy| (decoy, hex(&content))))
    {
        let matches = searched(format!("{decoy}{armour}").as_bytes()).matches;
        assert_eq!(matches.len(), 1, "{decoy}: {matches:?}");
    }
}

#[test]
fn what_lies_deeper_as_text_is_told_too() {
    let noise = private_key().into_bytes();
    for (armour, name) in [(STANDARD.encode(gzip(&text(SECRET))), "base64"), (hex(&zlib(&noise)), "hex")] {
        let three = gzip(&gzip(&gzip(&[&noise[..], b"\n", armour.as_bytes()].concat())));
        let told = unsearched(&three);
        let too_deep = format!("inside {name} inside gzip inside gzip inside gzip lies too deep");
        assert!(told.iter().any(|told| told.ends_with(&too_deep)), "{told:?}");
    }
    let mut turns = text(SECRET);
    for _ in 0..4 {
        turns = STANDARD.encode(gzip(&turns)).into_bytes();
    }
    assert!(unsearched(&turns).iter().any(|told| told.ends_with("lies too deep")), "{:?}", unsearched(&turns));
}

#[test]
fn what_cannot_be_opened_is_told() {
    for (content, told) in [
        ([entry(1, 8), b"whatever".to_vec()].concat(), "zip is encrypted"),
        ([entry(1, 99), b"whatever".to_vec()].concat(), "zip is encrypted"),
        ([entry(0, 14), b"whatever".to_vec()].concat(), "zip cannot be opened"),
        (b"\xfd7zXZ\0\0\x04".to_vec(), "xz cannot be opened"),
        (b"7z\xbc\xaf\x27\x1c\0\x04".to_vec(), "7z cannot be opened"),
        (b"Rar!\x1a\x07\x01\0".to_vec(), "rar cannot be opened"),
        (b"\x04\x22\x4d\x18".to_vec(), "lz4 cannot be opened"),
        (b"Salted__12345678".to_vec(), "openssl enc is encrypted"),
        (b"-----BEGIN PGP MESSAGE-----\n\nabc".to_vec(), "pgp is encrypted"),
        // For a password, by gpg and by who writes packets in the newer way; for keys of RSA and of a curve.
        (b"\x8c\x0d\x04\x09\x03\x02saltsalt\xff\xd2".to_vec(), "pgp is encrypted"),
        (b"\xc3\x0d\x04\x09\x03\x08saltsalt\xff\xd2".to_vec(), "pgp is encrypted"),
        (b"\x85\x01\x8c\x03keykeyke\x01\x0c\0".to_vec(), "pgp is encrypted"),
        (b"\x84\x5e\x03keykeyke\x12\x01\x07\x40".to_vec(), "pgp is encrypted"),
        (STANDARD.encode("Salted__12345678").into_bytes(), "openssl enc inside base64 is encrypted"),
        (gzip(b"Salted__12345678"), "openssl enc inside gzip is encrypted"),
    ] {
        let in_part = [b"--x\r\n\r\n", &content[..], b"\r\n--x--"].concat();
        assert_eq!(unsearched(&content), [told]);
        assert_eq!(unsearched(&in_part), [told]);
    }
}

#[test]
fn a_session_key_for_rsa_is_known_where_something_begins() {
    const KEY: &[u8] = b"\x85\x01\x0c\x03keykeyke\x01\x08\0";
    for before in [&b""[..], b"--part\r\ncontent-type: application/octet-stream\r\n\r\n", &[0; 512]] {
        assert_eq!(unsearched(&[before, KEY].concat()), ["pgp is encrypted"], "{}", before.escape_ascii());
    }
    assert_eq!(unsearched(&[&b"amid a large file"[..], KEY].concat()), [""; 0]);
}

#[test]
fn what_cannot_be_opened_is_told_as_text_too() {
    for (content, name, why) in [
        (entry(1, 8), "zip", "is encrypted"),
        (b"\xfd7zXZ\0\0\x04".to_vec(), "xz", "cannot be opened"),
        (b"7z\xbc\xaf\x27\x1c\0\x04".to_vec(), "7z", "cannot be opened"),
        (b"Rar!\x1a\x07\x01\0".to_vec(), "rar", "cannot be opened"),
        (b"\x04\x22\x4d\x18\x64\x40".to_vec(), "lz4", "cannot be opened"),
        (b"BZh91AY&SY".to_vec(), "bzip2", "cannot be opened"),
        (b"Salted__12345678".to_vec(), "openssl enc", "is encrypted"),
        (b"\x8c\x0d\x04\x09\x03\x02saltsalt\xff\xd2".to_vec(), "pgp", "is encrypted"),
        (b"\xc3\x0d\x04\x09\x03\x08saltsalt\xff\xd2".to_vec(), "pgp", "is encrypted"),
        (b"\x85\x02\x0c\x03keykeyke\x01\x10\0".to_vec(), "pgp", "is encrypted"),
        (b"\x84\x5e\x03keykeyke\x12\x01\x07\x40".to_vec(), "pgp", "is encrypted"),
    ] {
        for before in ["", "a", "ab"] {
            let content = [before.as_bytes(), &content].concat();
            let base64 = wrapped(&STANDARD.encode(&content), 76, "\n");
            assert_eq!(unsearched(base64.as_bytes()), [format!("{name} inside base64 {why}")], "after {before:?}");
            assert_eq!(unsearched(hex(&content).as_bytes()), [format!("{name} inside hex {why}")], "after {before:?}");
        }
    }
}

#[test]
fn a_container_that_breaks_off_is_searched_as_far_as_it_goes() {
    let noise: Vec<u8> = private_key().into_bytes();
    let packed = gzip(&[&text(SECRET)[..], &noise].concat());
    let cut = &packed[..packed.len() - 500];
    assert_eq!(way(cut), (Plain, vec![Container::Gzip]));
    assert_eq!(unsearched(cut), ["gzip is incomplete: searched as far as it goes"]);

    // A stored block, then one of a kind that does not exist.
    let content = text(SECRET);
    let length = content.len() as u16;
    let block = [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), &content].concat();
    let damaged = [&entry(0, 8), &block[..], b"\x07rest"].concat();
    assert!(ways(&damaged).contains(&(Plain, vec![Container::Zip])));
    assert_eq!(unsearched(&damaged), ["zip is damaged: searched as far as the fault"]);
}

#[test]
fn however_much_breaks_off_what_cannot_be_opened_is_told() {
    let packers = [gzip, zlib, zip, zstd];
    let armours = [|packed: &[u8]| STANDARD.encode(packed).into_bytes(), |packed: &[u8]| hex(packed).into_bytes()];
    let noise = private_key().into_bytes();
    let mut sent = Vec::new();
    for (outer, inner) in packers.iter().flat_map(|outer| packers.map(|inner| (outer, inner))) {
        for (first, second) in armours.iter().flat_map(|first| armours.map(|second| (first, second))) {
            let broken = inner(&noise);
            let broken = second(&broken[..broken.len() / 2]);
            sent.extend([&first(&outer(&broken)), &b" . "[..], &broken, b" . "].concat());
        }
    }
    assert_eq!(unsearched(&sent).len(), 32, "no more is told");
    let mut scanner = SecretSet::new([("it", SECRET)]).scanner();
    scanner.feed(&sent);
    scanner.feed(&[entry(1, 8), b"whatever".to_vec()].concat());
    let told: Vec<_> = scanner.finish().unsearched.iter().map(ToString::to_string).collect();
    assert!(told.len() == 32 && told.contains(&"zip is encrypted".to_owned()), "{told:?}");
}

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
fn one_way_of_a_secret_is_told_once() {
    let many: Vec<u8> = (0..50).flat_map(|n| gzip(&text(&format!("{SECRET}-{n}")))).collect();
    assert_eq!(way(&many), (Plain, vec![Container::Gzip]));
    let both = [&text(SECRET)[..], &gzip(&text(SECRET))].concat();
    assert_eq!(ways(&both), [(Plain, vec![]), (Plain, vec![Container::Gzip])]);
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

#[test]
fn text_that_begins_like_zlib_is_not_taken_for_a_damaged_one() {
    // Of a thousand checksums that begin with these digits, dozens inflate to something.
    let checksums = (0..1000_u64).flat_map(|number| {
        let rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ["789c", "78da", "785e", "7801"].map(|start| format!("{start}{rest:016x}{:016x}{rest:04x}", !rest))
    });
    for text in ["x^2 + y^2 = r^2", "eNormalizedCoordinates"].map(str::to_owned).into_iter().chain(checksums) {
        assert_eq!(searched(text.as_bytes()).unsearched, [], "{text}");
    }
    // A thousand bytes as they are, then a kind of block that there is not.
    let late = [&b"\x78\x01\x00\xe8\x03\x17\xfc"[..], &[b'x'; 1000], &[0xff; 9]].concat();
    assert_eq!(searched(&late).unsearched[0].why, Why::Damaged);
}
