//! What the trials of every backend say to a sandbox and hear of it.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::time::Duration;

use libtest_mimic::Failed;
use redroom_harness::Error;
use redroom_harness::backend::{Ended, Exec, ExecEnd, Sandbox, Sink, Stream};

pub(crate) fn shell(script: &str) -> Exec {
    Exec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        env: Vec::new(),
        stdin: Vec::new().into(),
        cwd: "/workspace".to_owned(),
        timeout: Duration::from_secs(60),
    }
}

/// What a command printed; it has had enough past `most` bytes.
pub(crate) struct Heard {
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) engine: Vec<u8>,
    pub(crate) most: usize,
}

impl Default for Heard {
    fn default() -> Self {
        Heard { out: Vec::new(), err: Vec::new(), engine: Vec::new(), most: usize::MAX }
    }
}

impl Sink for Heard {
    fn write(&mut self, stream: Stream, chunk: &[u8]) -> ControlFlow<()> {
        let kept = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
            Stream::Engine => &mut self.engine,
        };
        kept.extend_from_slice(chunk);
        if kept.len() > self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs a script to its own end, and gives what it printed.
pub(crate) async fn said(sandbox: &dyn Sandbox, script: &str) -> Result<String, Failed> {
    let mut heard = Heard::default();
    let end = sandbox.exec(shell(script), &mut heard).await?;
    let text = String::from_utf8_lossy(&heard.out).into_owned();
    ensure(end.exit_code == Some(0) && end.ended == Ended::Itself, || {
        format!("{script}: {end:?}\n{text}\n{}", String::from_utf8_lossy(&heard.err))
    })?;
    Ok(text)
}

pub(crate) async fn ran(sandbox: &dyn Sandbox, exec: Exec) -> Result<(ExecEnd, Heard), Error> {
    let mut heard = Heard::default();
    let end = sandbox.exec(exec, &mut heard).await?;
    Ok((end, heard))
}

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T, what: impl Display) -> Result<(), Failed> {
    ensure(found == expected, || format!("{what}: expected {expected:?}, found {found:?}"))
}
