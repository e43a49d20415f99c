//! A byte stream under observation: its **memory** holds the last that was read, so that what turns out to be no HTTP is
//! evidence all the same, and can search all that is read, so that what a parser passes over is, too; its **pulse** says
//! when something moved last, so that silence can be ended.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2::Frames;
use crate::search::{Scanner, Searched, SecretSet};

/// How much of what was read last is remembered: more than a protocol buffers before it gives up.
const MEMORY: usize = 192 * 1024;

/// A stream that is shared between the protocol that reads it and whoever takes over what the protocol left.
pub(crate) struct Witness<S> {
    stream: Arc<Mutex<S>>,
    memory: Memory,
    pulse: Pulse,
}

impl<S> Witness<S> {
    pub(crate) fn new(stream: S, pulse: Pulse) -> Self {
        Witness { stream: Arc::new(Mutex::new(stream)), memory: Memory::default(), pulse }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    fn stream(&self) -> MutexGuard<'_, S> {
        locked(&self.stream)
    }
}

impl<S> Clone for Witness<S> {
    fn clone(&self) -> Self {
        Witness { stream: self.stream.clone(), memory: self.memory.clone(), pulse: self.pulse.clone() }
    }
}

/// The last that was read, and whether there was a reason to write yet.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Recent>>);

struct Recent {
    bytes: VecDeque<u8>,
    /// How many of them there may be.
    room: usize,
    /// How many bytes were read before the first of these.
    start: u64,
    retired: bool,
    /// Whether the client was understood, so that it may be answered.
    understood: bool,
    watch: Option<Watch>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { bytes: VecDeque::new(), room: MEMORY, start: 0, retired: false, understood: false, watch: None }
    }
}

/// A search through everything that is read.
struct Watch {
    scanner: Scanner,
    /// If it is HTTP/2: its heads and bodies, for these are not there as they are meant.
    http2: Frames,
    /// How many bytes were read.
    read: u64,
    /// A body of known length: whoever reads it searches it.
    passed_over: Range<u64>,
}

impl Watch {
    fn add(&mut self, read: &[u8]) {
        let length = read.len() as u64;
        let within = |place: u64| usize::try_from(place.clamp(self.read, self.read + length) - self.read);
        if let (Ok(start), Ok(end)) = (within(self.passed_over.start), within(self.passed_over.end)) {
            self.http2.feed(&read[..start], &mut self.scanner);
            self.http2.feed(&read[end..], &mut self.scanner);
        }
        self.read += length;
    }
}

impl Memory {
    /// Takes what is remembered.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut locked(&self.0).bytes).into()
    }

    /// What is remembered.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        locked(&self.0).bytes.iter().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).bytes.is_empty()
    }

    /// Where the head of an HTTP/1 request ends that begins with what is remembered.
    pub(crate) fn end_of_head(&self) -> Option<u64> {
        let recent = locked(&self.0);
        let is_break = |byte: &&u8| **byte == b'\r' || **byte == b'\n';
        let blank = recent.bytes.iter().take_while(is_break).count();
        let mut line = 1;
        for (index, byte) in recent.bytes.iter().enumerate().skip(blank) {
            match byte {
                b'\n' if line == 0 => return Some(recent.start + index as u64 + 1),
                b'\n' => line = 0,
                b'\r' => {}
                _ => line += 1,
            }
        }
        None
    }

    /// The target of the HTTP/1 request that begins with what is remembered, if it has a fragment: no client should send
    /// one, and parsers drop it.
    pub(crate) fn target_with_fragment(&self) -> Option<String> {
        let recent = locked(&self.0);
        let bytes = recent.bytes.iter().copied();
        let line: Vec<u8> = bytes.skip_while(|byte| b"\r\n".contains(byte)).take_while(|&byte| byte != b'\n').collect();
        let target = line.split(|&byte| byte == b' ').nth(1)?;
        target.contains(&b'#').then(|| String::from_utf8_lossy(target).into_owned())
    }

    /// Forgets what was read before a place: it has become a request.
    pub(crate) fn forget_before(&self, place: u64) {
        let mut recent = locked(&self.0);
        let length = usize::try_from(place.saturating_sub(recent.start)).unwrap_or(usize::MAX).min(recent.bytes.len());
        recent.bytes.drain(..length);
        recent.start += length as u64;
    }

    /// Forgets everything if it ends so.
    pub(crate) fn forget_ending_with(&self, end: &[u8]) {
        let mut recent = locked(&self.0);
        let length = recent.bytes.len();
        if length >= end.len() && recent.bytes.range(length - end.len()..).eq(end) {
            recent.start += length as u64;
            recent.bytes.clear();
        }
    }

    /// Forgets a chunked body that begins at a place. `false` if it is not remembered whole, and nothing is forgotten.
    pub(crate) fn forget_chunked(&self, place: u64) -> bool {
        let end = {
            let mut recent = locked(&self.0);
            let Some(place) = place.checked_sub(recent.start).and_then(|place| usize::try_from(place).ok()) else {
                return false;
            };
            let Some(length) = recent.bytes.make_contiguous().get(place..).and_then(chunked_length) else {
                return false;
            };
            recent.start + (place + length) as u64
        };
        self.forget_before(end);
        true
    }

    /// Searches everything that is read from now on.
    pub(crate) fn watch(&self, secrets: &SecretSet) {
        if !secrets.is_empty() {
            locked(&self.0).watch =
                Some(Watch { scanner: secrets.scanner(), http2: Frames::new(secrets), read: 0, passed_over: 0..0 });
        }
    }

    /// A body begins whose length is known, and which is searched by whoever reads it.
    pub(crate) fn pass_over(&self, body: Range<u64>) {
        if let Some(watch) = &mut locked(&self.0).watch {
            watch.passed_over = body;
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        locked(&self.0).watch.is_some()
    }

    /// Ends the search: what it came to.
    pub(crate) fn watched(&self) -> Searched {
        let watch = locked(&self.0).watch.take();
        watch.map_or_else(Searched::default, |watch| {
            let mut searched = watch.scanner.finish();
            searched.join(watch.http2.finish());
            searched
        })
    }

    /// Remembers no more than so much from now on.
    pub(crate) fn narrow(&self, room: usize) {
        locked(&self.0).room = room;
    }

    /// Remembers nothing from now on.
    pub(crate) fn retire(&self) {
        let mut recent = locked(&self.0);
        recent.bytes = VecDeque::new();
        recent.retired = true;
    }

    /// The client was understood: it may be answered. Before that nothing is written, because an answer that a client
    /// does not read makes its kernel throw away what it has yet to send, and with it evidence.
    pub(crate) fn understood(&self) {
        locked(&self.0).understood = true;
    }

    /// HTTP/2 begins with both sides talking.
    fn may_write(&self) -> bool {
        const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";
        let recent = locked(&self.0);
        recent.understood || recent.bytes.len() >= HTTP2.len() && recent.bytes.range(..HTTP2.len()).eq(HTTP2)
    }

    fn add(&self, read: &[u8]) {
        let mut recent = locked(&self.0);
        if let Some(watch) = &mut recent.watch {
            watch.add(read);
        }
        if !recent.retired {
            recent.bytes.extend(read);
            let excess = recent.bytes.len().saturating_sub(recent.room);
            recent.bytes.drain(..excess);
            recent.start += excess as u64;
        }
    }
}

/// How long a chunked body is, trailers included; `None` if it does not end here, or is none.
pub(crate) fn chunked_length(body: &[u8]) -> Option<usize> {
    let line_end = |from: usize| Some(from + body.get(from..)?.windows(2).position(|pair| pair == b"\r\n")?);
    let mut place = 0;
    loop {
        let end = line_end(place)?;
        let digits = body[place..end].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = usize::from_str_radix(std::str::from_utf8(&body[place..place + digits]).ok()?, 16).ok()?;
        place = end + 2;
        if size == 0 {
            break;
        }
        place = place.checked_add(size)?.checked_add(2)?;
    }
    loop {
        let end = line_end(place)?;
        if end == place {
            return Some(end + 2);
        }
        place = end + 2;
    }
}

/// When something moved last.
#[derive(Clone)]
pub(crate) struct Pulse(Arc<Mutex<Instant>>);

impl Pulse {
    pub(crate) fn new() -> Self {
        Pulse(Arc::new(Mutex::new(Instant::now())))
    }

    fn beat(&self) {
        *locked(&self.0) = Instant::now();
    }

    /// Returns when nothing has moved for so long.
    pub(crate) async fn stopped(&self, patience: Duration) {
        loop {
            let deadline = *locked(&self.0) + patience;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline.into()).await;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncRead + Unpin> AsyncRead for Witness<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut *self.stream()).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.memory.add(&buffer.filled()[before..]);
            self.pulse.beat();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Witness<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.memory.may_write() {
            return Poll::Ready(Err(not_understood()));
        }
        let written = Pin::new(&mut *self.stream()).poll_write(cx, bytes);
        if written.is_ready() {
            self.pulse.beat();
        }
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.memory.may_write() {
            return Poll::Ready(Err(not_understood()));
        }
        let written = Pin::new(&mut *self.stream()).poll_write_vectored(cx, slices);
        if written.is_ready() {
            self.pulse.beat();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.memory.may_write() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut *self.stream()).poll_shutdown(cx)
    }
}

fn not_understood() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the client was not understood")
}

#[cfg(test)]
mod tests {
    use super::{Memory, chunked_length};
    use crate::search::SecretSet;

    #[test]
    fn a_chunked_body_ends_where_its_trailers_do() {
        for (body, length) in [
            ("0\r\n\r\n", Some(5)),
            ("0\r\n\r\n0\r\n\r\n", Some(5)),
            ("5;a=b\r\nab\r\nc\r\n0\r\nx: y\r\n\r\nGET", Some(25)),
            ("A \r\n0\r\n\r\n01234\r\n0\r\n\r\nrest", Some(21)),
            ("5\r\nabc", None),
            ("0\r\n", None),
            ("0\r\nx: y\r\n", None),
            ("x\r\n\r\n", None),
            ("ffffffffffffffff\r\n", None),
            ("", None),
        ] {
            assert_eq!(chunked_length(body.as_bytes()), length, "{body:?}");
        }
    }

    #[test]
    fn what_is_passed_over_is_not_searched_and_everything_around_it_is() {
        let found = |body, cut: usize| {
            let memory = Memory::default();
            memory.watch(&SecretSet::new([("before", "aaaa-1111"), ("inside", "bbbb-2222"), ("behind", "cccc-3333")]));
            memory.pass_over(body);
            memory.add(&b"aaaa-1111bbbb-2222cccc-3333"[..cut]);
            memory.add(&b"aaaa-1111bbbb-2222cccc-3333"[cut..]);
            memory.watched().matches.iter().map(|found| found.secret.to_string()).collect::<Vec<_>>()
        };
        for cut in 0..=27 {
            assert_eq!(found(9..18, cut), ["before", "behind"], "{cut}");
            assert_eq!(found(0..0, cut), ["before", "inside", "behind"], "{cut}");
            assert_eq!(found(9..1000, cut), ["before"], "{cut}");
        }
    }
}
