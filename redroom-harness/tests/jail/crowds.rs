//! Many starts: at once, from a busy process, one after the other. And what one costs:
//! `cargo test -p redroom-harness --test jail -- --ignored --nocapture a_start_costs`, on a machine that does nothing else, with
//! bubblewrap installed.

use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::{Backend as _, Exec};

use crate::Body;
use crate::fixture::{Fixture, Place, ensure, eventually, ran, said, same, shell};
use crate::holdings::Holdings;

pub(crate) const ALONE_ARGUMENT: &str = "__trial-alone";

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("starts_from_a_busy_process_never_hang", busy),
    ("sixty_four_sandboxes_live_at_once", at_once),
    ("two_hundred_runs_one_after_the_other_leave_nothing_behind", one_after_the_other),
];

/// Asked for with `--ignored`: a figure needs a machine that does nothing else.
pub(crate) const MEASUREMENTS: &[(&str, Body)] = &[("a_start_costs_at_most_half_more_than_bubblewraps", cost)];

const STARTS: u32 = 300;
const AT_ONCE: u32 = 64;
const RUNS: u32 = 200;
/// What the first runs make once and keep: the runtime's threads, the slot, what a library opens when it is first used.
const WARM_UP: u32 = 10;
const SAMPLES: usize = 41;
const MOST: f64 = 1.5;

async fn start_and_end(place: &Place) -> Result<(), Failed> {
    let sandbox = place.sandbox(Vec::new()).await?;
    let (end, _) = ran(&*sandbox, Exec { argv: vec!["true".to_owned()], ..shell("") }).await?;
    same(end.exit_code, Some(0), "its exit code")?;
    Ok(sandbox.remove().await?)
}

/// Threads that hold what a child of a process with threads must not wait for: the allocator's locks, the environment's.
fn busy(fixture: &Fixture) -> Result<(), Failed> {
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let kept: Vec<Vec<u8>> = (0..200).map(|size| vec![number; size * 97]).collect();
                    std::hint::black_box((kept, std::env::var("PATH").ok()));
                    if number == 0 {
                        let _ = Command::new("true").status();
                    }
                }
            })
        })
        .collect();
    let outcome = fixture.runtime.block_on(async {
        let place = fixture.open().await?;
        let starts = async {
            for _ in 0..STARTS {
                start_and_end(&place).await?;
            }
            Ok::<_, Failed>(())
        };
        let outcome = tokio::time::timeout(Duration::from_secs(120), starts).await;
        place.slot.close().await?;
        outcome.map_err(|_| Failed::from("the starts took more than two minutes"))?
    });
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("nothing in it panics"));
    outcome
}

fn at_once(fixture: &Fixture) -> Result<(), Failed> {
    let begun = Instant::now();
    fixture.runtime.block_on(async {
        let all = tokio::sync::Barrier::new(AT_ONCE as usize);
        let lives = (0..AT_ONCE).map(|number| {
            let all = &all;
            async move {
                let place = fixture.open().await?;
                let sandbox = place.sandbox(Vec::new()).await?;
                // Everybody lives now.
                all.wait().await;
                same(said(&*sandbox, &format!("echo {number}")).await?, format!("{number}\n"), "its answer")?;
                sandbox.remove().await?;
                Ok::<_, Failed>(place.slot.close().await?)
            }
        });
        let ended = tokio::time::timeout(Duration::from_secs(120), futures_util::future::join_all(lives)).await;
        ended.map_err(|_| Failed::from("they took more than two minutes"))?.into_iter().collect::<Result<(), _>>()
    })?;
    eprintln!("{AT_ONCE} sandboxes at once: {:?}", begun.elapsed());
    Ok(())
}

/// In a process of its own, where nobody else opens or starts anything.
fn one_after_the_other(_: &Fixture) -> Result<(), Failed> {
    let mut alone = Command::new("/proc/self/exe").arg(ALONE_ARGUMENT).stderr(Stdio::piped()).spawn()?;
    let mut words = String::new();
    alone.stderr.take().ok_or("no output")?.read_to_string(&mut words)?;
    let status = alone.wait()?;
    eprint!("{words}");
    ensure(status.success(), || words)
}

/// What that process does.
pub(crate) fn alone() -> ExitCode {
    let outcome = Fixture::new().map_err(|error| Failed::from(error.to_string())).and_then(|fixture| grow(&fixture));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{}", failed.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn grow(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let place = fixture.open().await?;
        for _ in 0..WARM_UP {
            start_and_end(&place).await?;
        }
        let before = Holdings::now(&fixture.session);
        let begun = Instant::now();
        for _ in 0..RUNS {
            start_and_end(&place).await?;
        }
        let took = begun.elapsed() / RUNS;
        // A helper is waited for by its keeper when the next one is asked for.
        let after = || Holdings::now(&fixture.session);
        let grown = eventually(Duration::from_secs(5), "as before", || after().are_within(&before));
        eprintln!("{RUNS} runs, {took:?} each: {before:?}, then {:?}", after());
        place.slot.close().await?;
        fixture.jail.end_session(&fixture.session).await?;
        grown
    })
}

/// A jail's start and end against those of the leanest sandbox there is, one after the other, in turns.
fn cost(fixture: &Fixture) -> Result<(), Failed> {
    const LEANEST: [&str; 8] = ["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc"];
    let bubblewrap = || Command::new("bwrap").args(LEANEST).args(["/proc", "true"]).status();
    ensure(bubblewrap().is_ok_and(|status| status.success()), || "install bubblewrap: it is measured against".into())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    fixture.runtime.block_on(async {
        let place = fixture.open().await?;
        start_and_end(&place).await?;
        for _ in 0..SAMPLES {
            let begun = Instant::now();
            bubblewrap()?;
            theirs.push(begun.elapsed());
            let begun = Instant::now();
            start_and_end(&place).await?;
            ours.push(begun.elapsed());
        }
        Ok::<_, Failed>(place.slot.close().await?)
    })?;
    let [ours, theirs] = [ours, theirs].map(|mut all| {
        all.sort_unstable();
        all
    });
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    for (which, at) in [("fastest", 0), ("tenth", SAMPLES / 10), ("median", SAMPLES / 2)] {
        eprintln!("{which} of {SAMPLES}: jail {:?}, bubblewrap {:?}", ours[at], theirs[at]);
    }
    eprintln!("load {load}");
    let [ours, theirs] = [ours[SAMPLES / 2], theirs[SAMPLES / 2]];
    ensure(ours.as_secs_f64() <= theirs.as_secs_f64() * MOST, || format!("{ours:?} is more than {MOST} × {theirs:?}"))
}
