//! A request's body as everybody reads it: its encoding taken off, its type what it says it is.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

/// The largest request that the real services take, packed and unpacked.
pub(crate) const BODY_LIMIT: usize = 32 * 1024 * 1024;

/// The body without its encoding.
///
/// # Errors
///
/// Why nobody can say for sure what is in it, in words that go on a sentence about the body.
pub(crate) fn plain(headers: &HeaderMap, body: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    check_type(headers)?;
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let encoding = encodings.next().map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    if encodings.next().is_some() {
        return Err("has two encodings");
    }
    let unpacked = match encoding.as_deref() {
        None | Some(b"" | b"identity") => return Ok(None),
        Some(b"gzip" | b"x-gzip") => unpack(MultiGzDecoder::new(body)),
        Some(b"deflate") => unpack_whole(body),
        Some(b"zstd") => unpack_frame(body),
        Some(_) => return Err("has an encoding that redroom cannot read; gzip, deflate and zstd can be read"),
    };
    match unpacked {
        Ok(Some(unpacked)) => Ok(Some(unpacked)),
        Ok(None) => Err("is larger than 32 MB when it is unpacked"),
        Err(_) => Err("is not packed as its content-encoding says"),
    }
}

/// JSON in UTF-8, or nothing said: curl says `application/x-www-form-urlencoded` of whatever it is given.
fn check_type(headers: &HeaderMap) -> Result<(), &'static str> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = types.next() else { return Ok(()) };
    if types.next().is_some() {
        return Err("has two content types");
    }
    let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let mut parts = value.split(';').map(str::trim);
    if !matches!(parts.next(), Some("application/json" | "application/x-www-form-urlencoded" | "")) {
        return Err("is not JSON by its content type");
    }
    let mut charsets = parts.filter_map(|part| part.split_once('=')).filter(|(name, _)| name.trim() == "charset");
    if charsets.any(|(_, charset)| !matches!(charset.trim().trim_matches('"'), "utf-8" | "utf8" | "us-ascii")) {
        return Err("is not in UTF-8 by its content type");
    }
    Ok(())
}

/// `None`: more than is allowed.
fn unpack(reader: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut unpacked = Vec::new();
    reader.take(BODY_LIMIT as u64 + 1).read_to_end(&mut unpacked)?;
    Ok((unpacked.len() <= BODY_LIMIT).then_some(unpacked))
}

/// One zlib stream, with nothing behind it that another reader could take for more.
fn unpack_whole(body: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut decoder = ZlibDecoder::new(body);
    let unpacked = unpack(&mut decoder)?;
    match decoder.total_in() == body.len() as u64 || unpacked.is_none() {
        true => Ok(unpacked),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// One zstd frame, likewise.
fn unpack_frame(mut body: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
    let decoder = ruzstd::decoding::StreamingDecoder::new(&mut body).map_err(invalid)?;
    let unpacked = unpack(decoder)?;
    match body.is_empty() || unpacked.is_none() {
        true => Ok(unpacked),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}
