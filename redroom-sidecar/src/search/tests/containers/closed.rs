//! What is not searched is told: what cannot be opened, lies too deep, breaks off, or is damaged.

use super::*;

#[test]
fn what_lies_deeper_than_the_third_is_told() {
    let four = gzip(&gzip(&gzip(&gzip(&text(SECRET)))));
    let told = unsearched(&four);
    assert!(told.contains(&"gzip inside gzip inside gzip inside gzip lies too deep".to_owned()), "{told:?}");
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
