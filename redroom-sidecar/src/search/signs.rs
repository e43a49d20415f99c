//! Where in a stream a container may begin: its first bytes, wherever they stand.

use super::container::{Container, Why};

/// The first bytes of a container were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Gzip,
    Zlib,
    Zip,
    Zstd,
    /// With its digit: the size of its blocks.
    Bzip2(u8),
    /// Something that cannot be opened.
    Closed(Container, Why),
}

impl Sign {
    pub(super) fn container(self) -> Container {
        match self {
            Sign::Gzip => Container::Gzip,
            Sign::Zlib => Container::Zlib,
            Sign::Zip => Container::Zip,
            Sign::Zstd => Container::Zstd,
            Sign::Bzip2(_) => Container::Bzip2,
            Sign::Closed(container, _) => container,
        }
    }

    /// How many bytes it has.
    pub(super) fn len(self) -> u64 {
        match self {
            Sign::Zlib => 2,
            Sign::Gzip => 3,
            Sign::Zip | Sign::Zstd | Sign::Closed(Container::Lz4, _) => 4,
            Sign::Closed(Container::Xz | Container::SevenZip | Container::Rar, _) => 6,
            Sign::Closed(..) => 8,
            Sign::Bzip2(_) => 10,
        }
    }
}

/// Looks for signs in a stream.
#[derive(Default)]
pub(super) struct Signs {
    /// The last eight bytes.
    recent: u64,
}

/// Whether a byte can be the last of a sign.
const LAST: [bool; 256] = {
    let mut last = [false; 256];
    let bytes = b"\x08\x01\x5e\x9c\xda\x04\xfdY\x00\x1c\x07\x18_E\x02\x03\x09\x0a\x0b\x0c\x0d\x0e\x40";
    let mut index = 0;
    while index < bytes.len() {
        last[bytes[index] as usize] = true;
        index += 1;
    }
    last
};

impl Signs {
    /// The next sign, and how many bytes there are to its end.
    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8]) -> Option<(usize, Sign)> {
        for (index, &byte) in bytes.iter().enumerate() {
            self.recent = self.recent << 8 | u64::from(byte);
            if LAST[usize::from(byte)]
                && let Some(sign) = sign(self.recent)
            {
                return Some((index + 1, sign));
            }
        }
        None
    }
}

/// The lengths of session keys for keys of RSA.
const RSA: [[u8; 2]; 3] = [[1, 0x0c], [1, 0x8c], [2, 0x0c]];

fn sign(recent: u64) -> Option<Sign> {
    let eight = recent.to_be_bytes();
    let closed = |container, why| Some(Sign::Closed(container, why));
    match eight {
        [.., 0x1f, 0x8b, 8] => Some(Sign::Gzip),
        // Of a window of 32 KiB, as everybody writes it.
        [.., 0x78, 0x01 | 0x5e | 0x9c | 0xda] => Some(Sign::Zlib),
        [.., b'P', b'K', 3, 4] => Some(Sign::Zip),
        [.., 0x28, 0xb5, 0x2f, 0xfd] => Some(Sign::Zstd),
        [b'h', size @ b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y'] => Some(Sign::Bzip2(size)),
        [.., 0xfd, b'7', b'z', b'X', b'Z', 0] => closed(Container::Xz, Why::Unsupported),
        [.., b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c] => closed(Container::SevenZip, Why::Unsupported),
        [.., b'R', b'a', b'r', b'!', 0x1a, 7] => closed(Container::Rar, Why::Unsupported),
        [.., 4, 0x22, 0x4d, 0x18] => closed(Container::Lz4, Why::Unsupported),
        [b'S', b'a', b'l', b't', b'e', b'd', b'_', b'_'] => closed(Container::Openssl, Why::Encrypted),
        // `BEGIN PGP MESSAGE`
        [b'N', b' ', b'P', b'G', b'P', b' ', b'M', b'E'] => closed(Container::Pgp, Why::Encrypted),
        // The same without armour: a session key for a password (cipher, salted and iterated, hash), for a key of a curve, for
        // one of RSA of 2048, 3072, 4096 bits. So few bytes of this last one are known that they stand in large files by
        // chance: it has to be where something begins.
        [.., 0x8c | 0xc3, 0x0d, 4, 1..=13, 3, 1..=14] => closed(Container::Pgp, Why::Encrypted),
        [.., 0x12, 1, 7, 0x40] => closed(Container::Pgp, Why::Encrypted),
        [0, 0, 0, 0, 0x85, high, low, 3] | [.., b'\n', 0x85, high, low, 3] if RSA.contains(&[high, low]) => {
            closed(Container::Pgp, Why::Encrypted)
        }
        _ => None,
    }
}
