//! What is left when a slot, a sandbox or the whole process ends, however it ends: nothing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;

use crate::Body;
use crate::fixture::{Fixture, Heard, ensure, eventually, found, mark, processes_with, said, same, shell};
use crate::holdings::children;

/// Many times what it takes where nobody else wants the processors.
const SOON: Duration = Duration::from_secs(5);

pub(crate) const VICTIM_ARGUMENT: &str = "__trial-victim";

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("a_killed_harness_leaves_no_process", killed),
    ("a_harness_that_is_stopped_and_then_killed_leaves_no_process", stopped),
    ("a_killed_helper_takes_its_sandbox_along", |fixture| killed_above(fixture, Above::Helper)),
    ("a_killed_keeper_takes_its_sandbox_along", |fixture| killed_above(fixture, Above::Keeper)),
    ("a_closed_slot_ends_its_link_and_what_runs_in_it", closed),
    ("a_dropped_sandbox_leaves_no_process", dropped),
    ("a_start_that_is_given_up_leaves_no_process", given_up),
    ("many_sandboxes_start_at_once", many),
];

/// Another process with an agent at work in a sandbox, whose processes have `mark` among their arguments.
fn start(mark: &str) -> Result<Child, Failed> {
    let mut victim = Command::new("/proc/self/exe")
        .args([VICTIM_ARGUMENT, mark])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(victim.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    same(line.as_str(), "ready\n", "the other process")?;
    eventually(SOON, "its processes are there", || processes_with(mark) >= 3)?;
    Ok(victim)
}

/// What the other process does.
pub(crate) fn victim() -> ExitCode {
    let mark = std::env::args().nth(2).unwrap_or_default();
    let Ok(fixture) = Fixture::new() else { return ExitCode::FAILURE };
    let outcome: Result<(), Failed> = fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        said(
            &*sandbox,
            &format!("setsid sleep {mark} >/dev/null 2>&1 & (trap '' TERM; nohup sleep {mark} >/dev/null 2>&1 &)"),
        )
        .await?;
        writeln!(std::io::stdout(), "ready")?;
        sandbox.exec(shell(&format!("trap '' TERM HUP; sleep {mark}")), &mut Heard::default()).await?;
        Ok(())
    });
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn killed(_: &Fixture) -> Result<(), Failed> {
    let mark = mark();
    let mut victim = start(&mark)?;
    victim.kill()?;
    eventually(SOON, "nothing is left", || processes_with(&mark) == 0)?;
    victim.wait()?;
    Ok(())
}

fn stopped(_: &Fixture) -> Result<(), Failed> {
    let mark = mark();
    let mut victim = start(&mark)?;
    let pid = i32::try_from(victim.id()).ok().and_then(Pid::from_raw).ok_or("no number")?;
    kill_process(pid, Signal::STOP)?;
    victim.kill()?;
    eventually(SOON, "nothing is left", || processes_with(&mark) == 0)?;
    victim.wait()?;
    Ok(())
}

/// A process of ours above a sandbox's first one.
#[derive(Clone, Copy)]
enum Above {
    Helper,
    Keeper,
}

/// By the signal for its parent's death alone: this process holds on to the sandbox, and asks nothing of it.
fn killed_above(fixture: &Fixture, whom: Above) -> Result<(), Failed> {
    let mark = mark();
    fixture.in_slot(|place| {
        let mark = mark.clone();
        async move {
            let sandbox = place.sandbox(Vec::new()).await?;
            said(&*sandbox, &format!("setsid sleep {mark} >/dev/null 2>&1 &")).await?;
            eventually(SOON, "it is there", || processes_with(&mark) == 1)?;
            let (keeper, helper) = above_it(&mark)?;
            let first = children(helper);
            let above = match whom {
                Above::Helper => helper,
                Above::Keeper => keeper,
            };
            let above = Pid::from_raw(above.cast_signed()).ok_or("no number")?;
            kill_process(above, Signal::KILL)?;
            eventually(SOON, "nothing is left", || processes_with(&mark) == 0)?;
            eventually(SOON, "no first process is left", || first.iter().all(|pid| !runs(*pid)))?;
            drop(sandbox);
            Ok(())
        }
    })
}

/// The keeper and the helper of the sandbox that has a process with `mark` among its arguments.
fn above_it(mark: &str) -> Result<(u32, u32), Failed> {
    // The first process inherits it when the shell is gone.
    found(SOON, "a helper of this process has it", || {
        let keepers = children(std::process::id()).into_iter();
        let mut ways = keepers.flat_map(|keeper| children(keeper).into_iter().map(move |helper| (keeper, helper)));
        ways.find(|(_, helper)| children(*helper).iter().any(|first| holds(*first, mark)))
    })
}

/// Whether a process has started one with `mark` among its arguments, or adopted it.
fn holds(process: u32, mark: &str) -> bool {
    let line = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    children(process).iter().any(|child| line(child).split(|byte| *byte == 0).any(|part| part == mark.as_bytes()))
}

/// Whether a process is there, and more than a number that nobody has waited for.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn closed(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let mark = mark();
        let mut place = fixture.open().await?;
        let sandbox = place.sandbox(Vec::new()).await?;
        said(&*sandbox, &format!("setsid sleep {mark} >/dev/null 2>&1 &")).await?;
        eventually(SOON, "it is there", || processes_with(&mark) == 1)?;
        for _ in 0..2 {
            let closed = tokio::time::timeout(Duration::from_secs(10), place.slot.close()).await;
            closed.map_err(|_| "the slot was not closed within 10 s")??;
        }
        let mut rest = Vec::new();
        let read = tokio::time::timeout(SOON, place.link.read_to_end(&mut rest)).await;
        ensure(read.is_ok(), || "the link did not end".to_owned())?;
        eventually(SOON, "nothing is left", || processes_with(&mark) == 0)?;
        Ok(sandbox.remove().await?)
    })
}

fn dropped(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let mark = mark();
        let sandbox = place.sandbox(Vec::new()).await?;
        said(&*sandbox, &format!("setsid sleep {mark} >/dev/null 2>&1 &")).await?;
        eventually(SOON, "it is there", || processes_with(&mark) == 1)?;
        drop(sandbox);
        eventually(SOON, "nothing is left", || processes_with(&mark) == 0)
    })
}

fn given_up(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        for patience in [0, 1, 2, 4, 8, 16] {
            let _ = tokio::time::timeout(Duration::from_millis(patience), place.sandbox(Vec::new())).await;
        }
        let (sandbox, mark) = (place.sandbox(Vec::new()).await?, mark());
        said(&*sandbox, &format!("setsid sleep {mark} >/dev/null 2>&1 &")).await?;
        let (keeper, helper) = above_it(&mark)?;
        // The next sandbox's may wait.
        let others = || children(keeper).into_iter().filter(|pid| *pid != helper && runs(*pid)).count();
        eventually(SOON, "no helper of those that were given up is left", || others() <= 1)?;
        Ok(sandbox.remove().await?)
    })
}

fn many(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let starts = (0..16).map(|number| async move {
            let place = fixture.open().await?;
            let sandbox = place.sandbox(Vec::new()).await?;
            same(said(&*sandbox, &format!("echo {number}")).await?, format!("{number}\n"), "its answer")?;
            sandbox.remove().await?;
            Ok::<_, Failed>(place.slot.close().await?)
        });
        for ended in futures_util::future::join_all(starts).await {
            ended?;
        }
        Ok(())
    })
}
