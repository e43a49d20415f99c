//! What is taken out of a frozen sandbox: the changes, and the agent's own account on the way.

use std::io::{self, Read};
use std::sync::Arc;

use crate::agent::Agent;
use crate::backend::{CollectedEntry, CollectedKind, Visitor};
use crate::evidence::{Changes, Collector};

/// The most of a transcript that is kept, in bytes, all files together.
const TRANSCRIPT: u64 = 64 * 1024 * 1024;

/// What is taken out of a frozen sandbox.
pub(super) struct Gathered {
    collector: Collector,
    agent: Arc<dyn Agent>,
    session: String,
    transcript: Vec<(String, Vec<u8>)>,
    left: u64,
}

impl Gathered {
    pub(super) fn new(collector: Collector, agent: Arc<dyn Agent>, session: String) -> Self {
        Gathered { collector, agent, session, transcript: Vec::new(), left: TRANSCRIPT }
    }

    /// The changes, and the transcript: its files one after another, sorted by path.
    pub(super) fn finish(mut self) -> (Changes, String) {
        self.transcript.sort();
        let text = self.transcript.iter().map(|(_, content)| String::from_utf8_lossy(content)).collect();
        (self.collector.finish(), text)
    }

    fn is_transcript(&self, entry: &CollectedEntry) -> Option<String> {
        let path = std::str::from_utf8(&entry.path).ok()?;
        let file = matches!(entry.kind, CollectedKind::File(_));
        (file && self.agent.is_transcript(&self.session, path)).then(|| path.to_owned())
    }
}

impl Visitor for Gathered {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        let Some(path) = self.is_transcript(entry) else { return self.collector.entry(entry, content) };
        let mut kept = Vec::new();
        content.take(self.left).read_to_end(&mut kept)?;
        self.left -= kept.len() as u64;
        self.collector.entry(entry, &mut kept.as_slice().chain(content))?;
        self.transcript.push((path, kept));
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        self.collector.missed(path, why);
    }
}
