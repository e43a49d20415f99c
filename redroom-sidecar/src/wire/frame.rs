//! Frames: how a stream of JSON values is cut. A length of four bytes, big-endian, then that many bytes of JSON.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most that one frame may weigh. A hit's body is kept to 64 KiB and its head to as much; JSON escapes can make six
/// bytes of one.
pub const REPORT_LIMIT: usize = 2 * 1024 * 1024;

/// The most that a command may weigh: it carries every planted page.
pub const COMMAND_LIMIT: usize = 256 * 1024 * 1024;

/// Why a stream of frames is not one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Longer than the limit.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// What it said of itself.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Not the JSON that belongs here.
    #[error("a frame does not parse")]
    Malformed(#[source] serde_json::Error),
}

/// One value as a frame.
pub fn encode<T: Serialize>(value: &T) -> Result<Bytes, serde_json::Error> {
    let mut frame = BytesMut::with_capacity(512);
    frame.put_u32(0);
    let mut writer = frame.writer();
    serde_json::to_writer(&mut writer, value)?;
    let mut frame = writer.into_inner();
    let length = u32::try_from(frame.len() - 4).map_err(|_| serde::ser::Error::custom("a frame of over 4 GiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

/// Cuts a stream into frames, holding at most one frame and what came with it.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    buffer: BytesMut,
}

impl Decoder {
    /// A decoder that refuses frames over `limit` bytes as soon as it sees their length.
    pub fn new(limit: usize) -> Self {
        Decoder { limit, buffer: BytesMut::new() }
    }

    /// Takes what has arrived.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole frame, if there is one.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        self.buffer.advance(4);
        let frame = self.buffer.split_to(length);
        serde_json::from_slice(&frame).map(Some).map_err(FrameError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_were_cut() {
        let mut stream = Vec::new();
        for n in 0..3u32 {
            stream.extend_from_slice(&encode(&format!("value {n}")).unwrap());
        }
        for cut in 1..stream.len() {
            let mut decoder = Decoder::new(64);
            let mut seen = Vec::new();
            for chunk in stream.chunks(cut) {
                decoder.push(chunk);
                while let Some(value) = decoder.next_frame::<String>().unwrap() {
                    seen.push(value);
                }
            }
            assert_eq!(seen, ["value 0", "value 1", "value 2"], "cut every {cut} bytes");
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_has_arrived() {
        let mut decoder = Decoder::new(16);
        decoder.push(&17u32.to_be_bytes());
        assert!(matches!(decoder.next_frame::<String>(), Err(FrameError::TooLong { length: 17, limit: 16 })));
    }

    #[test]
    fn a_frame_that_is_no_json_is_refused() {
        let mut decoder = Decoder::new(16);
        decoder.push(&[0, 0, 0, 2, b'{', b'x']);
        assert!(matches!(decoder.next_frame::<String>(), Err(FrameError::Malformed(_))));
    }
}
