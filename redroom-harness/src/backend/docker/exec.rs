//! Commands in a sandbox, as the agent's user: run, drained, ended.
//!
//! The engine cannot end an exec, and a cut connection does not end it either. So what must end is killed from inside, by another
//! exec of the same user, which process 1 survives because it belongs to somebody else; and where that does not help, the
//! container is killed. An end of its own leaves the agent's other processes alone: a server that one turn started is there in the next.

use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::container::Container;
use super::engine::{status, unless};
use super::storage::Full;
use crate::backend::{AGENT_UID, Ended, Exec, ExecEnd, Sink, Stream as Which, WORKSPACE};
use crate::error::Result;

/// How often the engine is asked whether a command has ended: soon at first, and at least this often.
const LOOK_SOON: Duration = Duration::from_millis(5);
const LOOK_LATE: Duration = Duration::from_millis(500);
/// A process that a command left behind may hold its streams: how long the rest is read, and how long it may be silent.
const REST_AT_MOST: Duration = Duration::from_secs(2);
const REST_SILENT: Duration = Duration::from_millis(200);
/// When a kill from inside has failed, and how often it is tried.
const KILL_DEADLINE: Duration = Duration::from_secs(10);
const KILLS: usize = 3;
/// How long a command may take to die, or a start that was cut off to arrive after all.
const DEATH_DEADLINE: Duration = Duration::from_secs(2);
/// How long a container may outlive a command that was killed with it.
const DOOM_DEADLINE: Duration = Duration::from_millis(500);
const CHUNK: usize = 64 * 1024;

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// The agent's processes in one container.
pub(crate) struct Processes {
    container: Arc<Container>,
    full: Full,
    /// How many kills of dropped commands are under way: a new command waits for them, or they would hit it.
    kills: watch::Sender<usize>,
}

impl Processes {
    pub(crate) fn of(container: Arc<Container>, full: Full) -> Self {
        Processes { container, full, kills: watch::Sender::new(0) }
    }

    pub(crate) async fn run(&self, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        let end = self.run_to_its_end(exec, sink).await?;
        // Whatever the command's end looks like, this was the reason.
        Ok(if self.full.is_so() { ExecEnd { ended: Ended::StorageLimit, exit_code: None, ..end } } else { end })
    }

    async fn run_to_its_end(&self, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        // Cannot fail: the sender is ours.
        let _ = self.kills.subscribe().wait_for(|kills| *kills == 0).await;
        let asked = Instant::now();
        let id = match create(&self.container, exec.argv, exec.env, exec.cwd, true).await {
            Ok(id) => id,
            Err(error) if status(&error) == Some(409) && !self.container_lives().await? => {
                return Ok(ExecEnd { exit_code: None, ended: Ended::SandboxDied, duration: asked.elapsed() });
            }
            Err(error) => return Err(error),
        };
        let guard = KillOnDrop { processes: self, command: Some(id.clone()) };
        let started = Instant::now();
        let (mut output, input) = start(&self.container, &id).await?;
        let feeding = AbortOnDropHandle::new(tokio::spawn(feed(input, exec.stdin)));

        let mut relay = Relay::new(sink);
        let ended = self.follow(&id, &mut output, &mut relay, started + exec.timeout).await?;
        let duration = started.elapsed();
        let (ended, exit_code) = match ended {
            Followed::Exited(code) => (Ended::Itself, code),
            Followed::Gone => (Ended::SandboxDied, None),
            Followed::Cut(ended) => (ended, self.end(&id, &mut output, &mut relay).await?),
        };
        drain(&mut output, &mut relay).await;
        relay.close(exit_code);
        drop(feeding);
        guard.disarm();
        // 137 may be a process killed for memory, or all of them.
        if ended == Ended::Itself && exit_code.is_none_or(|code| code == 137) && self.container_dies().await? {
            return Ok(ExecEnd { exit_code: None, ended: Ended::SandboxDied, duration });
        }
        Ok(ExecEnd { exit_code, ended, duration })
    }

    /// Relays what the command prints until it has ended or must be.
    async fn follow(
        &self,
        id: &str,
        output: &mut Output,
        relay: &mut Relay<'_>,
        deadline: Instant,
    ) -> Result<Followed> {
        let mut open = true;
        let mut pause = LOOK_SOON;
        let mut look = Box::pin(look_after(&self.container, id, LOOK_LATE));
        loop {
            tokio::select! {
                chunk = output.next(), if open => match chunk {
                    Some(Ok(chunk)) => {
                        if relay.take(chunk).is_break() {
                            return Ok(Followed::Cut(Ended::OutputLimit));
                        }
                        // A flood always has a next one, and what is done with each takes time: whoever else lives on this
                        // thread gets a turn between.
                        yield_now().await;
                    },
                    // Streams close before the state is set, and a command may close its own and go on.
                    Some(Err(_)) | None => {
                        open = false;
                        look = Box::pin(look_after(&self.container, id, Duration::ZERO));
                    }
                },
                state = &mut look => match state? {
                    State::Ended(code) => return Ok(Followed::Exited(code)),
                    State::Unknown => return Ok(Followed::Gone),
                    State::Running | State::NotStarted => {
                        let next = if open { LOOK_LATE } else { pause };
                        pause = (pause * 2).min(LOOK_LATE);
                        look = Box::pin(look_after(&self.container, id, next));
                    }
                },
                () = sleep_until(deadline) => return Ok(Followed::Cut(Ended::Timeout)),
            }
        }
    }

    /// Ends a command, and reads on the while: the engine answers nothing about one whose output is stuck.
    async fn end(&self, id: &str, output: &mut Output, relay: &mut Relay<'_>) -> Result<Option<i64>> {
        let mut ending = pin!(end(&self.container, id));
        let mut open = true;
        loop {
            tokio::select! {
                code = &mut ending => return code,
                chunk = output.next(), if open => match chunk {
                    // Its end is under way already.
                    Some(Ok(chunk)) => drop(relay.take(chunk)),
                    Some(Err(_)) | None => open = false,
                },
            }
        }
    }

    /// Whether the container is dead or about to be: a command's end is known a moment before that of the container which took it along.
    async fn container_dies(&self) -> Result<bool> {
        let deadline = Instant::now() + DOOM_DEADLINE;
        while self.container_lives().await? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            sleep(LOOK_SOON * 4).await;
        }
        Ok(true)
    }

    async fn container_lives(&self) -> Result<bool> {
        Ok(self.container.state().await?.is_some_and(|state| state.running == Some(true)))
    }
}

/// What became of a command that was followed.
enum Followed {
    Exited(Option<i64>),
    /// The engine does not know it any more.
    Gone,
    Cut(Ended),
}

/// What the engine says of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotStarted,
    Running,
    Ended(Option<i64>),
    Unknown,
}

async fn create(
    container: &Container,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    cwd: String,
    stdin: bool,
) -> Result<String> {
    let options = CreateExecOptions {
        attach_stdin: Some(stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        user: Some(format!("{AGENT_UID}:{AGENT_UID}")),
        cmd: Some(argv),
        env: Some(env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: Some(cwd),
        ..Default::default()
    };
    let engine = &container.engine;
    Ok(engine.call("prepare a command", engine.docker.create_exec(&container.id, options)).await?.id)
}

async fn start(container: &Container, id: &str) -> Result<(Output, Input)> {
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(CHUNK) };
    let engine = &container.engine;
    match engine.call("start a command", engine.docker.start_exec(id, Some(options))).await? {
        StartExecResults::Attached { output, input } => Ok((output, input)),
        // Only asked for by `detach`.
        StartExecResults::Detached => Ok((Box::pin(futures_util::stream::empty()), Box::pin(tokio::io::sink()))),
    }
}

/// Writes the whole input, then its end. A command that does not read, or has ended, is no mistake of ours.
async fn feed(mut input: Input, bytes: Bytes) {
    if input.write_all(&bytes).await.is_ok() {
        let _ = input.shutdown().await;
    }
}

async fn look_after(container: &Container, id: &str, pause: Duration) -> Result<State> {
    sleep(pause).await;
    let engine = &container.engine;
    let asking = engine.docker.inspect_exec(id);
    let Some(found) = unless(&[404], engine.call("look at a command", asking).await)? else {
        return Ok(State::Unknown);
    };
    Ok(match (found.running, found.exit_code) {
        (Some(true), _) => State::Running,
        (_, None) => State::NotStarted,
        (_, code) => State::Ended(code),
    })
}

/// Ends every process of the agent's user, or the container. The exit code is that of the command that had to end.
async fn end(container: &Container, command: &str) -> Result<Option<i64>> {
    for _ in 0..KILLS {
        // A kill that fails shows in the state of the command.
        let _ = timeout(KILL_DEADLINE, kill_all(container)).await;
        let deadline = Instant::now() + DEATH_DEADLINE;
        let mut pause = LOOK_SOON;
        loop {
            match look_after(container, command, pause).await? {
                State::Ended(code) => return Ok(code),
                State::Unknown => return Ok(None),
                State::Running if Instant::now() > deadline => break,
                // Its start was cut off on its way to the engine.
                State::NotStarted if Instant::now() > deadline => return Ok(None),
                State::NotStarted | State::Running => pause = (pause * 2).min(LOOK_LATE),
            }
        }
    }
    container.kill().await?;
    Ok(None)
}

/// `kill -9 -1` ends every process of the user but its own, at once: forks included.
async fn kill_all(container: &Container) -> Result<()> {
    let argv = ["/bin/sh", "-c", "kill -9 -1"].map(str::to_owned).to_vec();
    let id = create(container, argv, Vec::new(), WORKSPACE.to_owned(), false).await?;
    let (mut output, _input) = start(container, &id).await?;
    while output.next().await.is_some() {}
    Ok(())
}

/// Reads what is left, so that a kill's last words are not lost. Bounded: a process that was left behind may print for ever.
async fn drain(output: &mut Output, relay: &mut Relay<'_>) {
    let rest = async {
        while let Ok(Some(Ok(chunk))) = timeout(REST_SILENT, output.next()).await {
            // It has ended anyway.
            let _ = relay.take(chunk);
        }
    };
    let _ = timeout(REST_AT_MOST, rest).await;
}

/// Kills a command whose future is dropped.
struct KillOnDrop<'a> {
    processes: &'a Processes,
    command: Option<String>,
}

impl KillOnDrop<'_> {
    fn disarm(mut self) {
        self.command = None;
    }
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        let Some(command) = self.command.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let (container, kills) = (self.processes.container.clone(), self.processes.kills.clone());
        kills.send_modify(|kills| *kills += 1);
        runtime.spawn(async move {
            if let Err(error) = end(&container, &command).await {
                tracing::debug!(%error, "a command that was given up could not be killed");
            }
            kills.send_modify(|kills| *kills -= 1);
        });
    }
}

/// Passes output on, and tells the engine's words from the agent's.
struct Relay<'a> {
    sink: &'a mut dyn Sink,
    /// The sink has had enough.
    muted: bool,
    /// The first words of all, where they may be the engine's: it reports a failed start on standard output.
    held: Option<Bytes>,
    begun: bool,
}

const START_FAILED: &[u8] = b"OCI runtime exec failed";

impl<'a> Relay<'a> {
    fn new(sink: &'a mut dyn Sink) -> Self {
        Relay { sink, muted: false, held: None, begun: false }
    }

    fn take(&mut self, chunk: LogOutput) -> ControlFlow<()> {
        let (which, bytes) = match chunk {
            LogOutput::StdOut { message } | LogOutput::StdIn { message } => (Which::Out, message),
            LogOutput::StdErr { message } => (Which::Err, message),
            LogOutput::Console { message } => (Which::Engine, message),
        };
        if !self.begun && which == Which::Out && bytes.starts_with(START_FAILED) {
            self.begun = true;
            self.held = Some(bytes);
            return ControlFlow::Continue(());
        }
        self.begun = true;
        if let Some(held) = self.held.take() {
            self.write(Which::Out, &held)?;
        }
        self.write(which, &bytes)
    }

    /// The engine's exit codes for a failed start settle whose words they were.
    fn close(mut self, exit_code: Option<i64>) {
        if let Some(held) = self.held.take() {
            let which = if matches!(exit_code, Some(126 | 127)) { Which::Engine } else { Which::Out };
            // It has ended anyway.
            let _ = self.write(which, &held);
        }
    }

    fn write(&mut self, which: Which, bytes: &[u8]) -> ControlFlow<()> {
        if self.muted {
            return ControlFlow::Continue(());
        }
        let flow = self.sink.write(which, bytes);
        self.muted = flow.is_break();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<(Which, Vec<u8>)>);

    impl Sink for Heard {
        fn write(&mut self, which: Which, chunk: &[u8]) -> ControlFlow<()> {
            self.0.push((which, chunk.to_vec()));
            ControlFlow::Continue(())
        }
    }

    fn heard(chunks: &[&'static str], exit_code: i64) -> Vec<(Which, String)> {
        let mut heard = Heard::default();
        let mut relay = Relay::new(&mut heard);
        for chunk in chunks {
            let _ = relay.take(LogOutput::StdOut { message: Bytes::from_static(chunk.as_bytes()) });
        }
        relay.close(Some(exit_code));
        heard.0.into_iter().map(|(which, bytes)| (which, String::from_utf8(bytes).unwrap())).collect()
    }

    const FAILED: &str = "OCI runtime exec failed: no such file\r\n";

    #[test]
    fn a_failed_start_is_told_in_the_engines_words() {
        assert_eq!(heard(&[FAILED], 127), [(Which::Engine, FAILED.to_owned())]);
    }

    #[test]
    fn an_agent_that_imitates_a_failed_start_is_quoted_as_itself() {
        assert_eq!(heard(&[FAILED], 0), [(Which::Out, FAILED.to_owned())]);
        let more = heard(&[FAILED, "more"], 127);
        assert_eq!(more, [(Which::Out, FAILED.to_owned()), (Which::Out, "more".to_owned())]);
        let later = heard(&["first", FAILED], 127);
        assert_eq!(later, [(Which::Out, "first".to_owned()), (Which::Out, FAILED.to_owned())]);
    }

    #[test]
    fn words_of_the_engine_in_between_are_kept_apart() {
        let mut heard = Heard::default();
        let mut relay = Relay::new(&mut heard);
        let _ = relay.take(LogOutput::Console { message: Bytes::from_static(b"\x03error") });
        let _ = relay.take(LogOutput::StdErr { message: Bytes::from_static(b"own") });
        relay.close(Some(0));
        assert_eq!(heard.0, [(Which::Engine, b"\x03error".to_vec()), (Which::Err, b"own".to_vec())]);
    }
}
