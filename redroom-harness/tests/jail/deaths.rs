//! Deaths while a sandbox is made: whatever of its own processes is killed at whatever moment, the start succeeds or says which one.
//!
//! In a process of its own, for every process of ours that it sees is one to kill.

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::Backend as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::Body;
use crate::fixture::{Fixture, ensure, ran, shell};
use crate::holdings::children;

pub(crate) const KILLED_ARGUMENT: &str = "__trial-killed";

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("a_first_process_that_is_killed_while_it_makes_a_sandbox_is_told", |_| in_its_own_process("first")),
    ("a_helper_that_is_killed_while_its_sandbox_is_made_is_told", |_| in_its_own_process("helper")),
];

const STARTS: u32 = 60;
/// As many starts as must have been hit, of all.
const HITS: usize = 10;
const AT_MOST: Duration = Duration::from_secs(10);

fn in_its_own_process(whom: &str) -> Result<(), Failed> {
    let alone = Command::new("/proc/self/exe").args([KILLED_ARGUMENT, whom]).stderr(Stdio::piped()).output()?;
    ensure(alone.status.success(), || String::from_utf8_lossy(&alone.stderr).into_owned())
}

/// What that process does.
pub(crate) fn killed() -> ExitCode {
    let whom = std::env::args().nth(2).unwrap_or_default();
    let outcome = Fixture::new().map_err(|error| Failed::from(error.to_string())).and_then(|it| starts(&it, &whom));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{}", failed.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn starts(fixture: &Fixture, whom: &str) -> Result<(), Failed> {
    let expected = match whom {
        "first" => "first process was killed by signal 9 while the sandbox was made",
        _ => "helper ended while the sandbox was made",
    };
    let mut hits = 0;
    fixture.runtime.block_on(async {
        let place = fixture.open().await?;
        for start in 0..STARTS {
            let over = AtomicBool::new(false);
            let begun = Instant::now();
            let opened = std::thread::scope(|scope| {
                // Each start a little later in its life.
                scope.spawn(|| kill(whom, Duration::from_micros(100) * start, &over));
                let opened =
                    tokio::task::block_in_place(|| fixture.runtime.handle().block_on(place.sandbox(Vec::new())));
                over.store(true, Ordering::Relaxed);
                opened
            });
            match opened {
                Ok(sandbox) => {
                    // It may have been hit just now.
                    let _ = ran(&*sandbox, shell("true")).await;
                    sandbox.remove().await?;
                }
                Err(error) => {
                    ensure(error.code() == "sandbox_failed" && error.detail().contains(expected), || {
                        error.to_string()
                    })?;
                    hits += 1;
                }
            }
            ensure(begun.elapsed() < AT_MOST, || format!("a start took {:?}", begun.elapsed()))?;
        }
        place.slot.close().await?;
        fixture.jail.end_session(&fixture.session).await?;
        ensure(hits >= HITS, || format!("of {STARTS} starts {hits} were hit: nothing is shown"))
    })
}

/// Kills a process of that kind, so long after one is seen.
fn kill(whom: &str, after: Duration, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let helpers = children(std::process::id()).into_iter().flat_map(children);
        let seen = match whom {
            "first" => helpers.flat_map(children).next(),
            // Not one that has only not been waited for.
            _ => helpers.last(),
        };
        if let Some(pid) = seen.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let seen = Instant::now();
            while seen.elapsed() < after {
                std::hint::spin_loop();
            }
            let _ = kill_process(pid, Signal::KILL);
            return;
        }
    }
}
