//! Agents that cannot be run: the error says whose fault it is, how the program ended and the last that it said, at once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use redroom::agent::{Agent, Program, ProgramSources, Progress, ToolHook, TurnCommand, TurnInput, TurnReader};
use redroom::prelude::*;
use redroom::{By, Error};

use crate::trial::{Trial, program, refused};

/// How long the bad news may take, once the sandbox is there.
const AT_ONCE: Duration = Duration::from_secs(5);

/// An executable for a mainframe.
fn foreign() -> PathBuf {
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x02\x01");
    // Big-endian: an executable for machine 22, version 1.
    header[16..24].copy_from_slice(&[0, 2, 0, 22, 0, 0, 0, 1]);
    header[52..54].copy_from_slice(&[0, 64]);
    program("foreign", 0o755, &header)
}

/// A program of this machine's that wants a library which nobody has.
fn incomplete() -> PathBuf {
    let mut body = std::fs::read("/bin/true").expect("a program");
    let at = body.windows(9).position(|bytes| bytes == b"libc.so.6").expect("it needs the C library");
    body[at + 3] = b'Q';
    program("incomplete", 0o755, &body)
}

/// What the first turn of this agent fails with.
async fn last_words(run: &Run) -> redroom::Result<Error> {
    let asked = Instant::now();
    let error = run.send("Hello.").await.expect_err("a turn that cannot be");
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    let result = run.finish().await?;
    assert_eq!(result.errors, std::slice::from_ref(&error));
    let red = std::panic::catch_unwind(|| result.assert_no_leaks()).expect_err("a run that shows nothing");
    let story = red.downcast_ref::<String>().expect("a text");
    assert!(story.contains("cannot show") && story.contains(error.code()), "{story}");
    Ok(error)
}

#[track_caller]
fn assert_tells(error: &Error, code: &str, exit_codes: &[i64], words: &str) {
    assert_eq!((error.by(), error.code()), (By::Agent, code), "{error}");
    let exit_code = error.call().and_then(|call| call.exit_code);
    assert!(exit_code.is_some_and(|code| exit_codes.contains(&code)), "{error:?}");
    assert!(error.detail().to_lowercase().contains(words), "{error}");
}

#[redroom::attack(agent = Trial::new("missing", &["/opt/missing/agent"]))]
async fn one_whose_program_is_missing_is_told_with_what_the_backend_says(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "agent_not_startable", &[126, 127], "no such file");
    Ok(())
}

#[redroom::attack(agent = Trial::new("foreign", &["/opt/foreign/agent"]).file(foreign(), "/opt/foreign/agent"))]
async fn one_for_another_machine_is_told_with_what_the_backend_says(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "agent_not_startable", &[126, 127, 255], "exec format error");
    Ok(())
}

#[redroom::attack(agent = Trial::new("incomplete", &["/opt/incomplete/agent"]).file(incomplete(), "/opt/incomplete/agent"))]
async fn one_that_lacks_a_library_is_told_with_the_loaders_words(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "agent_not_startable", &[127], "libq.so.6");
    Ok(())
}

#[redroom::attack(agent = Trial::new("complaining", &["bash", "-c", "echo half; echo 'FATAL: no licence' >&2; exit 3"]))]
async fn one_that_complains_and_ends_is_quoted(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "turn_failed", &[3], "fatal: no licence");
    Ok(())
}

/// Wants more at once than any process may have, also where no control group holds the sandbox: what the kernel allows, a watchdog
/// may see too late.
const GREEDY: &str =
    "import sys; print('growing', file=sys.stderr, flush=True); x = b'x' * (1200 << 20); print(len(x))";

#[redroom::attack(agent = Trial::new("greedy", &["python3", "-c", GREEDY]), limits = { memory: "32m" })]
async fn one_that_dies_at_once_of_its_limits_says_so(run: Run) -> redroom::Result<()> {
    let error = last_words(&run).await?;
    assert_eq!(error.by(), By::Agent);
    match error.code() {
        "out_of_memory" => assert!(error.detail().contains("limits.memory"), "{error}"),
        // Without a control group the process itself is told, and says so.
        _ => assert_tells(&error, "turn_failed", &[1], "memoryerror"),
    }
    Ok(())
}

#[redroom::attack(agent = Shell::new())]
async fn one_that_cannot_tell_its_version_is_refused_before_any_turn(run: Run) -> redroom::Result<()> {
    run.send("true").await?;
    let options = |agent: Trial| RunOptions::new().agent(agent);
    let quiet = Trial::new("quiet", &["true"]);
    let missing = refused(options(quiet.clone().version_command(&["/opt/missing/agent", "--version"]))).await;
    assert_tells(&missing, "agent_not_startable", &[126, 127], "no such file");
    let broken = refused(options(quiet.clone().version_command(&["bash", "-c", "echo broken >&2; exit 3"]))).await;
    assert_tells(&broken, "agent_not_startable", &[3], "broken");
    let other = refused(options(quiet.clone().version_command(&["echo", "quiet 2.0"]))).await;
    assert_eq!((other.by(), other.code()), (By::Agent, "agent_version_mismatch"), "{other}");
    let absent = refused(options(quiet.file("/nowhere/agent", "/opt/quiet/agent"))).await;
    assert_eq!((absent.by(), absent.code()), (By::Agent, "program_unreadable"), "{absent}");
    Ok(())
}

/// Claude Code as it is to the root of a machine: it does not take the mode in which nobody is asked.
struct Refusing(ClaudeCode);

#[redroom::async_trait]
impl Agent for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    fn model(&self) -> Option<&str> {
        Agent::model(&self.0)
    }

    async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> redroom::Result<Program> {
        Ok(Program::new("refusing", "1"))
    }

    fn hook(&self) -> ToolHook {
        self.0.hook()
    }

    fn turn(&self, _: &TurnInput<'_>) -> TurnCommand {
        let words = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons";
        TurnCommand::new(["bash", "-c", "echo \"$0\" >&2; exit 1", words])
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        self.0.reader()
    }
}

#[redroom::attack(agent = Refusing(ClaudeCode::new("2.1.332")), model = Script::new())]
async fn one_that_refuses_to_work_at_all_did_not_hold(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "turn_failed", &[1], "cannot be used with root");
    Ok(())
}

#[redroom::attack(
    agent = Trial::new("victim", &["python3", "-c", "import os; x = bytearray(60 << 20); os.kill(os.getpid(), 9)"]),
    limits = { memory: "256m" },
)]
async fn one_that_is_killed_from_outside_is_not_told_as_out_of_memory(run: Run) -> redroom::Result<()> {
    assert_tells(&last_words(&run).await?, "turn_failed", &[137], "exit code 137");
    Ok(())
}
