//! What a turn or a command prints: to the evidence folder as it comes and visible, to the agent's reader as it is, and bounded.

use std::ops::ControlFlow;

use super::moments::Ear;
use crate::agent::TurnReader;
use crate::backend::{Sink, Stream};
use crate::evidence::{RedactedStream, Redactor, Store};
use crate::visible::VisibleStream;

/// The most of a standard error that is kept in a result, in bytes: its end.
const STDERR_TAIL: usize = 16 * 1024;

/// Takes a turn's output.
pub(crate) struct TurnOutput<'a> {
    store: &'a Store,
    out_file: String,
    err_file: String,
    reader: Box<dyn TurnReader>,
    /// Whoever listens to the agent, if somebody does.
    ear: Option<Ear>,
    left: u64,
    out: RedactedStream,
    err: RedactedStream,
    out_shown: VisibleStream,
    err_shown: VisibleStream,
    stderr: Vec<u8>,
    engine: Vec<u8>,
}

impl<'a> TurnOutput<'a> {
    pub(crate) fn new(
        store: &'a Store,
        redactor: &Redactor,
        turn: u32,
        reader: Box<dyn TurnReader>,
        ear: Option<Ear>,
        limit: u64,
    ) -> Self {
        TurnOutput {
            store,
            out_file: format!("turn-{turn}.out"),
            err_file: format!("turn-{turn}.err"),
            reader,
            ear,
            left: limit,
            out: redactor.stream(),
            err: redactor.stream(),
            out_shown: VisibleStream::default(),
            err_shown: VisibleStream::default(),
            stderr: Vec::new(),
            engine: Vec::new(),
        }
    }

    /// The reader, the end of standard error, and what the engine said in between.
    pub(crate) fn into_parts(mut self) -> (Box<dyn TurnReader>, String, String) {
        self.out.end(|bytes| {
            self.out_shown.feed(bytes, |shown| self.store.extend(&self.out_file, shown));
            hear(&mut self.ear, bytes);
            self.reader.out(bytes);
        });
        self.out_shown.end(|shown| self.store.extend(&self.out_file, shown));
        if let Some(ear) = &mut self.ear {
            ear.end_of_line();
        }
        self.err.end(|bytes| {
            self.err_shown.feed(bytes, |shown| self.store.extend(&self.err_file, shown));
            self.reader.err(bytes);
            keep_tail(&mut self.stderr, bytes);
        });
        self.err_shown.end(|shown| self.store.extend(&self.err_file, shown));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (self.reader, text(self.stderr), text(self.engine))
    }
}

impl Sink for TurnOutput<'_> {
    fn write(&mut self, stream: Stream, chunk: &[u8]) -> ControlFlow<()> {
        let taken = usize::try_from(self.left).map_or(chunk.len(), |left| chunk.len().min(left));
        let kept = &chunk[..taken];
        self.left -= taken as u64;
        match stream {
            Stream::Out => self.out.feed(kept, |bytes| {
                self.out_shown.feed(bytes, |shown| self.store.extend(&self.out_file, shown));
                hear(&mut self.ear, bytes);
                self.reader.out(bytes);
            }),
            Stream::Err => self.err.feed(kept, |bytes| {
                self.err_shown.feed(bytes, |shown| self.store.extend(&self.err_file, shown));
                self.reader.err(bytes);
                keep_tail(&mut self.stderr, bytes);
            }),
            Stream::Engine => keep_tail(&mut self.engine, kept),
        }
        if taken < chunk.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Takes a command's output whole, up to a limit.
pub(crate) struct WholeOutput {
    limit: u64,
    taken: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl WholeOutput {
    pub(crate) fn new(limit: u64) -> Self {
        WholeOutput { limit, taken: 0, stdout: Vec::new(), stderr: Vec::new() }
    }
}

impl Sink for WholeOutput {
    fn write(&mut self, stream: Stream, chunk: &[u8]) -> ControlFlow<()> {
        self.taken += chunk.len() as u64;
        if self.taken > self.limit {
            return ControlFlow::Break(());
        }
        match stream {
            Stream::Out => self.stdout.extend_from_slice(chunk),
            Stream::Err | Stream::Engine => self.stderr.extend_from_slice(chunk),
        }
        ControlFlow::Continue(())
    }
}

fn hear(ear: &mut Option<Ear>, bytes: &[u8]) {
    if let Some(ear) = ear {
        ear.hear(bytes);
    }
}

fn keep_tail(tail: &mut Vec<u8>, chunk: &[u8]) {
    tail.extend_from_slice(chunk);
    if tail.len() > STDERR_TAIL {
        tail.drain(..tail.len() - STDERR_TAIL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_ended_when_it_prints_too_much_and_keeps_what_it_printed() {
        let mut output = WholeOutput::new(10);
        assert!(output.write(Stream::Out, b"12345").is_continue());
        assert!(output.write(Stream::Err, b"67890").is_continue());
        assert!(output.write(Stream::Out, b"x").is_break());
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"12345"[..], &b"67890"[..]));
    }

    #[test]
    fn of_standard_error_the_end_is_kept() {
        let mut tail = Vec::new();
        for _ in 0..STDERR_TAIL {
            keep_tail(&mut tail, b"ab");
        }
        keep_tail(&mut tail, b"end");
        assert_eq!(tail.len(), STDERR_TAIL);
        assert!(tail.ends_with(b"end"));
    }
}
