//! Reads a tar archive that a hostile container had a say in, member by member, without unpacking anything.
//!
//! The `tar` crate decodes the header blocks. It does not read the archive, for it takes a line break for the end of a PAX
//! record: a file name with one in it could pass for another file's name. Here a record ends where its length says.

use std::io::{self, Read};

use tar::Header;

const BLOCK: usize = 512;
/// The most that one extension header may weigh: the longest path that a kernel takes is 4 KiB.
const EXTENSION_LIMIT: u64 = 1024 * 1024;

/// The members of an archive.
pub(crate) struct Members<R> {
    source: R,
    /// Content of the member at hand that has not been read.
    content: u64,
    /// What fills its last block.
    padding: u64,
}

/// A member of an archive. Every part of it is the container's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) path: Vec<u8>,
    pub(crate) what: What,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File(u64),
    Folder,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    Fifo,
    Device,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(source: R) -> Self {
        Members { source, content: 0, padding: 0 }
    }

    /// The next member; what was not read of the one before is passed over. `None` at the end that the archive itself marks: one
    /// that just stops is an error.
    pub(crate) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut extended = Extended::default();
        loop {
            self.skip()?;
            let mut block = [0; BLOCK];
            self.source.read_exact(&mut block)?;
            if block == [0; BLOCK] {
                return Ok(None);
            }
            let header = checked(&block)?;
            let size = extended.size.map_or_else(|| header.entry_size(), Ok)?;
            self.open(size)?;
            match block[156] {
                b'x' => extended.pax(&self.extension()?)?,
                b'L' => extended.path = Some(without_nul(self.extension()?)),
                b'K' => extended.link = Some(without_nul(self.extension()?)),
                b'g' => {}
                kind => {
                    let path = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
                    let link =
                        extended.link.or_else(|| Some(header.link_name_bytes()?.into_owned())).unwrap_or_default();
                    let what = match kind {
                        b'0' | b'7' | 0 => What::File(size),
                        b'5' => What::Folder,
                        b'2' => What::Symlink(link),
                        b'1' => What::HardLink(link),
                        b'3' | b'4' => What::Device,
                        b'6' => What::Fifo,
                        other => return Err(invalid(format!("an archive member of an unknown kind ({other})"))),
                    };
                    if !matches!(what, What::File(_)) {
                        // A size says nothing about a member without content.
                        self.open(0)?;
                    }
                    let id = |long: Option<u32>, short: io::Result<u64>| match long {
                        Some(id) => Ok(id),
                        None => u32::try_from(short?).map_err(|_| invalid("an owner out of range")),
                    };
                    let (uid, gid) = (id(extended.uid, header.uid())?, id(extended.gid, header.gid())?);
                    return Ok(Some(Member { path, what, mode: header.mode()? & 0o7777, uid, gid }));
                }
            }
        }
    }

    pub(crate) fn source(&self) -> &R {
        &self.source
    }

    /// The content of the member at hand.
    pub(crate) fn content(&mut self) -> Content<'_, R> {
        Content { members: self }
    }

    fn open(&mut self, size: u64) -> io::Result<()> {
        let whole = size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| invalid("a size out of range"))?;
        (self.content, self.padding) = (size, whole - size);
        Ok(())
    }

    fn skip(&mut self) -> io::Result<()> {
        let left = self.content + self.padding;
        self.open(0)?;
        let skipped = io::copy(&mut self.source.by_ref().take(left), &mut io::sink())?;
        if skipped == left { Ok(()) } else { Err(cut()) }
    }

    fn extension(&mut self) -> io::Result<Vec<u8>> {
        if self.content > EXTENSION_LIMIT {
            return Err(invalid("an extension header of more than a mebibyte"));
        }
        let mut bytes = Vec::new();
        self.content().read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads the content of one member, to its end and no further.
pub(crate) struct Content<'a, R> {
    members: &'a mut Members<R>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.members.content).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.members.source.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(cut());
        }
        self.members.content -= read as u64;
        Ok(read)
    }
}

/// What extension headers said about the next member.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Extended {
    /// Takes the records `LENGTH KEY=VALUE\n`; the length counts the whole record.
    fn pax(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let malformed = || invalid("a malformed extension record");
        while !bytes.is_empty() {
            let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or_else(malformed)?;
            let length: usize = number(&bytes[..space]).ok_or_else(malformed)?;
            let record = bytes.get(space + 1..length).ok_or_else(malformed)?;
            bytes = &bytes[length..];
            let record = record.strip_suffix(b"\n").ok_or_else(malformed)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = Some(number(value).ok_or_else(malformed)?),
                b"uid" => self.uid = Some(number(value).ok_or_else(malformed)?),
                b"gid" => self.gid = Some(number(value).ok_or_else(malformed)?),
                _ => {}
            }
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn checked(block: &[u8; BLOCK]) -> io::Result<&Header> {
    let header = Header::from_byte_slice(block);
    let sum: u32 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    if header.cksum()? == sum { Ok(header) } else { Err(invalid("a header with a wrong checksum")) }
}

fn without_nul(mut name: Vec<u8>) -> Vec<u8> {
    while name.last() == Some(&0) {
        name.pop();
    }
    name
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends in the middle")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let body = [key.as_bytes(), b"=", value, b"\n"].concat();
        let mut length = body.len() + 2;
        while length != format!("{length} ").len() + body.len() {
            length += 1;
        }
        [format!("{length} ").as_bytes(), &body].concat()
    }

    fn member(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_uid(1000);
        header.set_gid(1000);
        header.as_mut_bytes()[156] = kind;
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    fn all(bytes: &[u8]) -> io::Result<Vec<(Member, Vec<u8>)>> {
        let mut members = Members::new(bytes);
        let mut found = Vec::new();
        while let Some(member) = members.next()? {
            let mut content = Vec::new();
            members.content().read_to_end(&mut content)?;
            found.push((member, content));
        }
        Ok(found)
    }

    const END: [u8; 1024] = [0; 1024];

    #[test]
    fn a_line_break_in_a_name_is_part_of_the_name() {
        let name = b"w/\xff\n18 path=w/README\n11 size=99\n";
        let archive =
            [member(b'x', "x", &record("path", name)), member(b'0', "w/short", b"evil"), END.to_vec()].concat();
        let found = all(&archive).unwrap();
        assert_eq!(found[0].0.path, name);
        assert_eq!(found[0].1, b"evil");
    }

    #[test]
    fn what_is_not_read_is_passed_over() {
        let archive = [member(b'0', "a", &[1; 2000]), member(b'0', "b", b"second"), END.to_vec()].concat();
        let mut members = Members::new(&archive[..]);
        members.next().unwrap();
        members.content().read_exact(&mut [0; 700]).unwrap();
        assert_eq!(members.next().unwrap().unwrap().path, b"b");
    }

    #[test]
    fn an_archive_that_just_stops_is_an_error() {
        let archive = [member(b'0', "a", &[1; 2000]), END.to_vec()].concat();
        for length in [0, 100, 512, 600, 2560, 2561] {
            assert!(all(&archive[..length]).is_err(), "{length}");
        }
        assert!(all(&archive).is_ok());
    }

    #[test]
    fn a_wrong_checksum_and_an_unknown_kind_are_errors() {
        let mut archive = [member(b'0', "a", b""), END.to_vec()].concat();
        archive[0] ^= 1;
        assert!(all(&archive).is_err());
        assert!(all(&[member(b'S', "a", b""), END.to_vec()].concat()).is_err());
    }

    #[test]
    fn a_size_beyond_everything_is_an_error() {
        for digits in [[0xff; 8], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x01]] {
            let mut header = Header::from_byte_slice(&member(b'0', "a", b"")).clone();
            header.as_mut_bytes()[124..136].copy_from_slice(&[&[0x80, 0, 0, 0][..], &digits].concat());
            header.set_cksum();
            let error = all(&[header.as_bytes(), &END[..]].concat()).unwrap_err();
            assert!(error.to_string().contains("size") || error.kind() == io::ErrorKind::UnexpectedEof, "{error}");
        }
        let extension = record("size", u64::MAX.to_string().as_bytes());
        assert!(all(&[member(b'x', "x", &extension), member(b'0', "y", b""), END.to_vec()].concat()).is_err());
    }

    #[test]
    fn an_extension_header_is_bounded() {
        let archive = [member(b'x', "x", &record("path", &vec![b'a'; 2_000_000])), END.to_vec()].concat();
        assert!(all(&archive).is_err());
    }

    proptest! {
        #[test]
        fn names_and_links_come_out_as_they_went_in(
            name in proptest::collection::vec(1_u8.., 1..300),
            link in proptest::collection::vec(1_u8.., 1..300),
        ) {
            let extension = [record("linkpath", &link), record("path", &name)].concat();
            let archive = [member(b'x', "x", &extension), member(b'2', "y", b""), END.to_vec()].concat();
            let found = all(&archive).unwrap();
            prop_assert_eq!(&found[0].0.path, &name);
            prop_assert_eq!(&found[0].0.what, &What::Symlink(link));
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            noise in proptest::collection::vec(any::<u8>(), 0..80),
            // Noise is hardly ever a record; this is nearly one.
            records in "([0-9]{0,3} ?(path|linkpath|size|uid|x)?=?[0-9a-z]{0,9}\n?){0,4}",
        ) {
            let _ = all(&bytes);
            for extension in [noise, records.into_bytes()] {
                let _ = all(&[member(b'x', "x", &extension), member(b'0', "y", b"content"), END.to_vec()].concat());
            }
        }
    }
}
