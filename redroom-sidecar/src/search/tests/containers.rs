//! Containers: what is in them is found, what is not searched is told, and neither costs more than it may.

mod bounds;
mod chance;
mod closed;

use std::io::Write as _;

use ::flate2::Compression;
use ::flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::search::{Container, Searched, Why};

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
fn one_way_of_a_secret_is_told_once() {
    let many: Vec<u8> = (0..50).flat_map(|n| gzip(&text(&format!("{SECRET}-{n}")))).collect();
    assert_eq!(way(&many), (Plain, vec![Container::Gzip]));
    let both = [&text(SECRET)[..], &gzip(&text(SECRET))].concat();
    assert_eq!(ways(&both), [(Plain, vec![]), (Plain, vec![Container::Gzip])]);
}
