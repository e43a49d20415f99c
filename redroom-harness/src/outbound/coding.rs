//! Content codings: what a packed body says, while it passes as it is. A piece at a time, cut anywhere, and bounded: a small
//! body can stand for a huge one.

use std::io::Write as _;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

/// The most that a body may say.
const LIMIT: usize = 64_000_000;

/// How much is unpacked at once: it stands for a thousand times as much at most.
const STEP: usize = 512;

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
}

/// A coding that cannot be unpacked here, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown(pub(crate) String);

/// A body that is damaged, or says too much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Coding {
    /// What a head says of its body; `None` if it is not packed.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Unknown> {
        let lists = headers.get_all(header::CONTENT_ENCODING).iter();
        let text: Vec<_> = lists.map(|list| String::from_utf8_lossy(list.as_bytes()).to_ascii_lowercase()).collect();
        let text = text.join(",");
        let mut codings = text.split(',').map(str::trim).filter(|coding| !matches!(*coding, "" | "identity"));
        match (codings.next(), codings.next()) {
            (None, _) => Ok(None),
            (Some("gzip" | "x-gzip"), None) => Ok(Some(Coding::Gzip)),
            (Some("deflate"), None) => Ok(Some(Coding::Deflate)),
            _ => Err(Unknown(text)),
        }
    }

    pub(crate) fn unpacker(self) -> Unpacker {
        let stage = match self {
            Coding::Gzip => Stage::Gzip(MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => Stage::Undecided,
        };
        Unpacker { stage, said: 0 }
    }
}

/// Unpacks one body.
pub(crate) struct Unpacker {
    stage: Stage,
    said: usize,
}

enum Stage {
    /// By its first byte: with zlib's head, as it should be, or without, as some send it.
    Undecided,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
}

impl Unpacker {
    /// Takes the next bytes, and gives what they say.
    pub(crate) fn feed(&mut self, packed: &[u8], mut say: impl FnMut(&[u8])) -> Result<(), Unreadable> {
        /// The low bits of zlib's first byte; in a raw stream they would begin a block of a kind that does not exist or
        /// one that is stored, which nobody sends.
        const ZLIB: u8 = 8;
        for step in packed.chunks(STEP) {
            if matches!(self.stage, Stage::Undecided) {
                self.stage = match step[0] & 15 == ZLIB {
                    true => Stage::Zlib(ZlibDecoder::new(Vec::new())),
                    false => Stage::Raw(DeflateDecoder::new(Vec::new())),
                };
            }
            let said = match &mut self.stage {
                Stage::Undecided => continue,
                Stage::Gzip(decoder) => {
                    decoder.write_all(step).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
                }
                Stage::Zlib(decoder) => {
                    decoder.write_all(step).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
                }
                Stage::Raw(decoder) => {
                    decoder.write_all(step).and_then(|()| decoder.flush()).map(|()| decoder.get_mut())
                }
            };
            let said = said.map(std::mem::take).map_err(|_| Unreadable)?;
            self.said += said.len();
            if self.said > LIMIT {
                return Err(Unreadable);
            }
            if !said.is_empty() {
                say(&said);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, ZlibEncoder};

    use super::*;

    fn of(values: &[&str]) -> Result<Option<Coding>, Unknown> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
        }
        Coding::of(&headers)
    }

    #[test]
    fn a_head_says_how_its_body_is_packed() {
        for (values, coding) in [
            (&[][..], Ok(None)),
            (&["identity"], Ok(None)),
            (&["GZip"], Ok(Some(Coding::Gzip))),
            (&["identity", " deflate "], Ok(Some(Coding::Deflate))),
            (&["br"], Err(Unknown("br".to_owned()))),
            (&["gzip, gzip"], Err(Unknown("gzip, gzip".to_owned()))),
            (&["gzip", "zstd"], Err(Unknown("gzip,zstd".to_owned()))),
        ] {
            assert_eq!(of(values), coding, "{values:?}");
        }
    }

    #[test]
    fn what_is_packed_is_read_wherever_it_is_cut() {
        let text = "event: ping\n\n".repeat(300);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text.as_bytes()).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(text.as_bytes()).unwrap();
        let twice = [gzip(&text.as_bytes()[..2000]), gzip(&text.as_bytes()[2000..])].concat();
        for (coding, packed) in [
            (Coding::Gzip, gzip(text.as_bytes())),
            (Coding::Gzip, twice),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, raw.finish().unwrap()),
        ] {
            for size in [1, 7, packed.len()] {
                let mut unpacker = coding.unpacker();
                let mut said = Vec::new();
                for piece in packed.chunks(size) {
                    unpacker.feed(piece, |bytes| said.extend_from_slice(bytes)).unwrap();
                }
                assert_eq!(String::from_utf8(said).unwrap(), text, "{coding:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_damaged_or_a_bomb_is_told() {
        let mut damaged = gzip(b"hello, hello, hello");
        // A block of a kind that does not exist.
        damaged[10] = 0xff;
        assert_eq!(Coding::Gzip.unpacker().feed(&damaged, |_| ()), Err(Unreadable));
        assert_eq!(Coding::Gzip.unpacker().feed(b"plain text", |_| ()), Err(Unreadable));
        let bomb = gzip(&vec![0; LIMIT + 1]);
        let mut largest = 0;
        assert_eq!(Coding::Gzip.unpacker().feed(&bomb, |said| largest = largest.max(said.len())), Err(Unreadable));
        assert!(largest < 1_000_000, "{largest}");
    }
}
