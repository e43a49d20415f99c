//! Commands in a sandbox: run, drained, ended.
//!
//! The first process starts them and kills them, on words over its socket; what they print comes through pipes. A word for a kill
//! is before any later word for a start, so that a command that was given up takes no other along.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::channel::{Channel, in_memory, is_gone};
use super::process::Processes;
use super::protocol::{Command, FromSandbox, ToSandbox};
use crate::backend::{Ended, Exec, ExecEnd, Sink, Stream};
use crate::error::{Error, Result};

/// A process that a command left behind may hold its streams: how long the rest is read, and how long it may be silent.
const REST_AT_MOST: Duration = Duration::from_secs(2);
const REST_SILENT: Duration = Duration::from_millis(200);
/// How long a command may take to die.
const DEATH_DEADLINE: Duration = Duration::from_secs(5);
const CHUNK: usize = 64 * 1024;

/// The commands of one sandbox.
pub(super) struct Commands {
    channel: Arc<Channel>,
    env: Vec<(String, String)>,
    running: Arc<Running>,
    _listening: AbortOnDropHandle<()>,
}

/// What is known of them.
struct Running {
    waiting: Mutex<Waiting>,
    /// Set when the first process has ended: its exit code, as far as it is known.
    ended: watch::Sender<Option<Option<i64>>>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    /// Who waits for a command's end, and why it could not be started.
    commands: HashMap<u64, (oneshot::Sender<Outcome>, Option<i32>)>,
}

/// How a command ended by itself.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    exit_code: i64,
    /// Why it could not be started.
    not_started: Option<i32>,
}

impl Commands {
    /// Takes over the socket of a sandbox that is ready. `env` is the environment of all commands.
    pub(super) fn new(channel: Channel, env: Vec<(String, String)>) -> Self {
        let channel = Arc::new(channel);
        let running = Arc::new(Running { waiting: Mutex::default(), ended: watch::Sender::new(None) });
        let listening = tokio::spawn(listen(channel.clone(), running.clone()));
        Commands { channel, env, running, _listening: AbortOnDropHandle::new(listening) }
    }

    /// The exit code of the first process, if it has ended.
    pub(super) fn end_of_sandbox(&self) -> Option<Option<i64>> {
        *self.running.ended.borrow()
    }

    pub(super) async fn run(&self, processes: &Processes, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        let began = Instant::now();
        let died = |began: Instant| ExecEnd { exit_code: None, ended: Ended::SandboxDied, duration: began.elapsed() };
        let starting = |error: io::Error| Error::backend("exec_failed", format!("cannot start a command: {error}"));
        let program = exec.argv.first().cloned().unwrap_or_default();
        let (mut streams, theirs) = Streams::open().map_err(starting)?;
        let command = Command { argv: exec.argv, env: joined(&self.env, exec.env), cwd: exec.cwd };
        let command = in_memory(&command).map_err(starting)?;
        let Some((id, mut exited)) = self.running.expect() else { return Ok(died(began)) };
        let guard = KillOnDrop(Some(self));
        let [stdin, stdout, stderr] = &theirs;
        let fds = [command.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        if let Err(error) = self.channel.send(&ToSandbox::Run(id), &fds).await {
            guard.disarm();
            return if is_gone(&error) { Ok(died(began)) } else { Err(starting(error)) };
        }
        drop(theirs);
        let feeding = streams.feed(exec.stdin);

        let mut relay = Relay { sink, muted: false };
        let deadline = began + exec.timeout;
        let followed = loop {
            tokio::select! {
                flow = streams.next(&mut relay), if streams.are_open() => if flow.is_break() {
                    break Err(Ended::OutputLimit);
                },
                outcome = &mut exited => break Ok(outcome.ok()),
                () = sleep_until(deadline) => break Err(Ended::Timeout),
            }
        };
        let duration = began.elapsed();
        let (ended, outcome) = match followed {
            Ok(Some(outcome)) => (Ended::Itself, Some(outcome)),
            Ok(None) => (Ended::SandboxDied, None),
            Err(cut) => (cut, self.end(processes, &mut exited, &mut streams, &mut relay).await?),
        };
        streams.drain(&mut relay).await;
        drop(feeding);
        guard.disarm();
        if let Some(errno) = outcome.and_then(|outcome| outcome.not_started) {
            let error = io::Error::from_raw_os_error(errno);
            let _ = relay.write(Stream::Engine, format!("cannot start {program}: {error}\n").as_bytes());
        }
        Ok(ExecEnd { exit_code: outcome.map(|outcome| outcome.exit_code), ended, duration })
    }

    /// Ends every process of the agent's, or the sandbox, and reads on the while. Gives how the command ended.
    async fn end(
        &self,
        processes: &Processes,
        exited: &mut oneshot::Receiver<Outcome>,
        streams: &mut Streams,
        relay: &mut Relay<'_>,
    ) -> Result<Option<Outcome>> {
        let killing = async {
            // Where it cannot be told, nobody is left to be killed.
            let _ = self.channel.send(&ToSandbox::KillAll, &[]).await;
            exited.await.ok()
        };
        let reading = async {
            while streams.are_open() {
                // Its end is under way already.
                let _ = streams.next(relay).await;
            }
            std::future::pending().await
        };
        let killed = timeout(DEATH_DEADLINE, async {
            tokio::select! {
                outcome = killing => outcome,
                () = reading => None,
            }
        });
        match killed.await {
            Ok(outcome) => Ok(outcome),
            Err(_) => {
                processes.end_first().await?;
                Ok(None)
            }
        }
    }
}

impl Running {
    /// A number for a command, and its end. `None` where the sandbox has ended.
    fn expect(&self) -> Option<(u64, oneshot::Receiver<Outcome>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        if self.ended.borrow().is_some() {
            return None;
        }
        waiting.last += 1;
        let id = waiting.last;
        waiting.commands.insert(id, (sender, None));
        Some((id, receiver))
    }

    fn not_started(&self, id: u64, errno: i32) {
        if let Some((_, why)) = self.waiting().commands.get_mut(&id) {
            *why = Some(errno);
        }
    }

    fn exited(&self, id: u64, exit_code: i32) {
        if let Some((sender, not_started)) = self.waiting().commands.remove(&id) {
            // Whoever gave the command up does not wait any more.
            let _ = sender.send(Outcome { exit_code: exit_code.into(), not_started });
        }
    }

    /// Nothing ends by itself any more.
    fn end(&self, exit_code: Option<i64>) {
        let mut waiting = self.waiting();
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(exit_code);
            first
        });
        waiting.commands.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes in what a sandbox says, to its end.
async fn listen(channel: Arc<Channel>, running: Arc<Running>) {
    loop {
        match channel.receive().await {
            Ok(Some((FromSandbox::NotStarted(id, errno), _))) => running.not_started(id, errno),
            Ok(Some((FromSandbox::Exited(id, code), _))) => running.exited(id, code),
            Ok(Some((FromSandbox::Ended(code), _))) => return running.end(Some(code.into())),
            // What else it says is not expected of it any more.
            Ok(Some(_)) => {}
            Ok(None) => return running.end(None),
            Err(error) => {
                tracing::warn!(%error, "a sandbox said what cannot be understood");
                return running.end(None);
            }
        }
    }
}

/// The near ends of a command's streams.
struct Streams {
    input: Option<Sender>,
    out: Option<Receiver>,
    err: Option<Receiver>,
    chunks: [Vec<u8>; 2],
}

impl Streams {
    /// The near ends, and the far ones: input, output, errors.
    fn open() -> io::Result<(Self, [OwnedFd; 3])> {
        let (stdin, input) = pipe_with(PipeFlags::CLOEXEC)?;
        let (out, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let streams = Streams {
            input: Some(Sender::from_owned_fd(input)?),
            out: Some(Receiver::from_owned_fd(out)?),
            err: Some(Receiver::from_owned_fd(err)?),
            chunks: [vec![0; CHUNK], vec![0; CHUNK]],
        };
        Ok((streams, [stdin, stdout, stderr]))
    }

    /// Writes the whole input, then its end. A command that does not read, or has ended, is no mistake of ours.
    fn feed(&mut self, bytes: Bytes) -> Option<AbortOnDropHandle<()>> {
        let mut input = self.input.take()?;
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = input.write_all(&bytes).await;
        })))
    }

    fn are_open(&self) -> bool {
        self.out.is_some() || self.err.is_some()
    }

    /// Passes on what comes next.
    async fn next(&mut self, relay: &mut Relay<'_>) -> ControlFlow<()> {
        // A flood always has a next one, and what is done with each takes time: whoever else lives on this thread gets a turn between.
        yield_now().await;
        let [out, err] = &mut self.chunks;
        let (which, read) = tokio::select! {
            read = read(&mut self.out, out) => (Stream::Out, read),
            read = read(&mut self.err, err) => (Stream::Err, read),
        };
        let (end, chunk) = if which == Stream::Out { (&mut self.out, out) } else { (&mut self.err, err) };
        match read {
            0 => {
                *end = None;
                ControlFlow::Continue(())
            }
            read => relay.write(which, &chunk[..read]),
        }
    }

    /// Reads what is left, so that a kill's last words are not lost. Bounded: a process that was left behind may print for ever.
    async fn drain(&mut self, relay: &mut Relay<'_>) {
        let rest = async { while self.are_open() && timeout(REST_SILENT, self.next(relay)).await.is_ok() {} };
        let _ = timeout(REST_AT_MOST, rest).await;
    }
}

/// How much was read; nothing at the end, and where reading fails.
async fn read(stream: &mut Option<Receiver>, chunk: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Passes output on until the sink has had enough.
struct Relay<'a> {
    sink: &'a mut dyn Sink,
    muted: bool,
}

impl Relay<'_> {
    fn write(&mut self, which: Stream, bytes: &[u8]) -> ControlFlow<()> {
        if self.muted {
            return ControlFlow::Continue(());
        }
        let flow = self.sink.write(which, bytes);
        self.muted = flow.is_break();
        flow
    }
}

/// Kills a command whose future is dropped.
struct KillOnDrop<'a>(Option<&'a Commands>);

impl KillOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        let Some(commands) = self.0 else { return };
        if let Err(error) = commands.channel.try_send(&ToSandbox::KillAll) {
            tracing::debug!(%error, "a command that was given up could not be killed");
        }
    }
}

/// The environment of one command: its own values are stronger.
fn joined(common: &[(String, String)], own: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut env = common.to_vec();
    env.retain(|(name, _)| own.iter().all(|(given, _)| given != name));
    env.extend(own);
    env
}
