//! `main` of a suite: arguments and registry in, attacks through the pool, exit code out.
//!
//! It has libtest's manners: its arguments, its words, its exit codes. Listing starts nothing: no runtime, no engine, no word on
//! standard output but the list.

mod arguments;
mod attack;
mod console;
mod order;
mod panics;
mod schedule;
mod selection;
mod signals;
mod tags;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use arguments::{Arguments, Format};
use console::{Console, OwnedOrigin};
use selection::{Selected, Test};

use crate::error::{Error, Result};
use crate::redroom::Redroom;
use crate::registry::{Ignore, Registration, ShouldPanic};
use crate::report::format::{Times, discovered};
use crate::report::record::{Outcome, TestRecord, Totals};
use crate::report::{junit, summary};
use crate::run::Observer as _;
use crate::settings::Settings;
use crate::suite::Suite;
use crate::visible::{visible, visible_line};

/// The exit code where there is no verdict: the suite could not run at all (a broken file of settings, no attacks, two of one
/// name), or no attack failed and some could not be run (no engine, no image, no agent).
const COULD_NOT_RUN: u8 = 2;
/// The exit code where an attack failed, as libtest has it.
const FAILED: u8 = 101;
/// How often what is under way is shown anew.
const TICK: Duration = Duration::from_millis(500);

/// Everything that the attacks of one process share.
struct Runner {
    handle: Handle,
    console: Arc<Console>,
    settings: Mutex<Option<Settings>>,
    /// Started by the first attack that runs; `None` once it has been stopped.
    redroom: tokio::sync::OnceCell<Result<Redroom>>,
    ignored_without_backend: bool,
    required: Required,
    records: Mutex<Vec<TestRecord>>,
    reports: Reports,
    attack_timeout: Duration,
    /// An attack that takes longer fails.
    ensured: Option<Duration>,
    fail_fast: bool,
    /// Raised by a signal: the process ends with the signal's code as soon as everything is removed; no other attack begins or ends.
    interrupted: AtomicBool,
}

/// Backends that must be there.
struct Required {
    docker: bool,
    jail: bool,
}

/// Files that are written when all is over.
struct Reports {
    junit: Option<PathBuf>,
    step_summary: Option<PathBuf>,
    origin: OwnedOrigin,
}

/// `main` of a suite: what `redroom::main!()` expands to. `manifest_dir` is the crate's folder when it was compiled.
pub fn run(suite: impl FnOnce() -> Suite, manifest_dir: &'static str) -> ExitCode {
    crate::init();
    let arguments = match Arguments::of_process() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let attacks = match crate::registry::attacks() {
        Ok(attacks) => attacks,
        Err(error) => return could_not_run(&error),
    };
    match arguments.selection.tags.check(attacks.iter().map(|attack| attack.tags)) {
        Ok(unknown) => unknown.iter().filter(|_| !arguments.list).for_each(|told| notice(&visible(told))),
        // As wrong as a flag that does not exist.
        Err(error) => {
            notice(&visible(&error.to_string()));
            return ExitCode::from(FAILED);
        }
    }
    let selected = arguments.selection.of(&attacks);
    if arguments.list {
        return list(&arguments, &selected);
    }
    match run_attacks(&arguments, selected, suite().manifest_dir(manifest_dir), Path::new(manifest_dir)) {
        Ok(code) => code,
        Err(error) => could_not_run(&error),
    }
}

fn run_attacks(arguments: &Arguments, selected: Selected, suite: Suite, package: &Path) -> Result<ExitCode> {
    let settings = settings(arguments, suite)?;
    if let Some(told) = &settings.unread {
        notice(&visible(told));
    }
    let junit = arguments.junit.clone().or(settings.junit.clone());
    if let Some(path) = &junit {
        junit::check(path)?;
    }
    let origin = OwnedOrigin {
        run: settings.environment.run(),
        package: package.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        attempt: settings.environment.attempt(),
    };
    let Selected { mut tests, filtered_out } = selected;
    let console = Console::new(arguments.display, tests.len(), origin.clone());
    if let Some(path) = &arguments.logfile {
        let failed = |error| {
            let detail = format!("the log cannot be written to {} ({error}); name another file", path.display());
            Error::redroom("log_unwritable", detail)
        };
        console.screen().log_to(path).map_err(failed)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("redroom")
        .build()
        .map_err(|error| Error::redroom("no_runtime", format!("the async runtime cannot start: {error}")))?;
    panics::install();
    let began = Instant::now();
    let threads = [arguments.threads, arguments.most_threads].into_iter().flatten().map(NonZeroUsize::get);
    // A thread waits for its attack; more of them than may be live at once would wait for nothing.
    let threads = threads.chain([settings.parallel as usize]).min().and_then(NonZeroUsize::new);
    let runner = Arc::new(Runner {
        handle: runtime.handle().clone(),
        console: console.clone(),
        ignored_without_backend: settings.ignored_without_backend,
        required: Required {
            docker: settings.environment.requires("docker"),
            jail: settings.environment.requires("jail"),
        },
        reports: Reports { junit, step_summary: settings.environment.step_summary.clone(), origin },
        attack_timeout: settings.attack_timeout(),
        ensured: arguments
            .display
            .times
            .filter(|_| arguments.display.ensure_time)
            .map(|Times { too_slow, .. }| too_slow),
        fail_fast: arguments.fail_fast,
        settings: Mutex::new(Some(settings)),
        redroom: tokio::sync::OnceCell::new(),
        interrupted: AtomicBool::new(false),
        records: Mutex::default(),
    });
    runtime.spawn(signals::end_on_signal(runner.clone()));
    runtime.spawn(keep_showing(console.clone()));
    let seed = arguments.shuffle.map(order::Shuffle::seed);
    if let Some(seed) = seed {
        order::shuffle(&mut tests, seed);
    }
    console.suite_began(tests.len(), seed);
    schedule::play_all(&tests, threads.unwrap_or(NonZeroUsize::MIN), |test| runner.test(test));
    runner.wait_if_interrupted();
    runtime.block_on(runner.stop());
    runner.wait_if_interrupted();
    let records = runner.records();
    let mut totals = Totals { filtered_out, duration: began.elapsed(), ..Totals::default() };
    records.iter().for_each(|record| totals.count(&record.outcome));
    console.suite_ended(&records, &totals);
    let reported = runner.report(&records);
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(exit_code(&totals, reported, console.screen().failure()))
}

/// What the command line says over everything else.
fn settings(arguments: &Arguments, suite: Suite) -> Result<Settings> {
    let mut settings = Settings::load(suite, arguments.profile.as_deref())?;
    match (arguments.parallel, arguments.threads) {
        (Some(parallel), _) => settings.set_parallel("--parallel", parallel)?,
        (None, Some(threads)) => {
            settings.set_parallel("--test-threads", u32::try_from(threads.get()).unwrap_or(u32::MAX))?;
        }
        (None, None) => {}
    }
    if let Some(backend) = &arguments.backend {
        settings.set_backend(backend)?;
    }
    Ok(settings)
}

fn exit_code(totals: &Totals, reported: Result<()>, unprinted: Option<String>) -> ExitCode {
    if let Some(error) = &unprinted {
        notice(&format!("the results cannot be printed: {error}"));
    }
    let reported = reported.inspect_err(|error| notice(&visible(&error.to_string())));
    if totals.failed > 0 || unprinted.is_some() {
        ExitCode::from(FAILED)
    } else if totals.errors > 0 || reported.is_err() {
        ExitCode::from(COULD_NOT_RUN)
    } else {
        ExitCode::SUCCESS
    }
}

async fn keep_showing(console: Arc<Console>) {
    let mut ticks = tokio::time::interval(TICK);
    while console.screen().shows_status() {
        ticks.tick().await;
        console.refresh();
    }
}

/// Prints the list, as libtest does: a reader that goes away ends it, and anything else that keeps it from being printed is
/// an error.
fn list(arguments: &Arguments, selected: &Selected) -> ExitCode {
    let attacks: Vec<&Registration> = selected.tests.iter().map(|test| test.attack).collect();
    let text = match arguments.display.format {
        Format::Json => discovered(&attacks),
        format => {
            let mut text: String = attacks.iter().map(|attack| format!("{}: test\n", attack.test_name())).collect();
            if format == Format::Pretty {
                let (gap, plural) =
                    (if attacks.is_empty() { "" } else { "\n" }, if attacks.len() == 1 { "" } else { "s" });
                text.push_str(&format!("{gap}{} test{plural}, 0 benchmarks\n", attacks.len()));
            }
            text
        }
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            notice(&format!("the list cannot be printed: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn record(attack: &Registration, duration: Duration, mut played: attack::Played) -> TestRecord {
    if !attack.tags.is_empty() {
        played.properties.push(("tags", attack.tags.join(",")));
    }
    TestRecord {
        path: attack.name.to_owned(),
        file: attack.file.to_owned(),
        line: attack.line,
        should_panic: attack.should_panic != ShouldPanic::No,
        duration,
        outcome: played.outcome,
        story: played.story,
        properties: played.properties,
    }
}

impl Runner {
    /// Plays a test, or passes it over, and tells of it. Whether others may begin.
    fn test(&self, test: &Test) -> bool {
        self.wait_if_interrupted();
        let attack = test.attack;
        self.console.test_began(attack.test_name());
        let began = Instant::now();
        let played = if test.passed_over {
            let reason = match attack.ignore {
                Ignore::Because(reason) => reason,
                Ignore::Yes | Ignore::No => "",
            };
            attack::Played::ignored(reason.to_owned())
        } else {
            self.attack(attack)
        };
        self.wait_if_interrupted();
        if let Some(line) = &played.notice {
            self.console.notice(&visible_line(line));
        }
        let took = if test.passed_over { Duration::ZERO } else { began.elapsed() };
        let mut record = record(attack, took, played);
        if let Some(longest) = self.ensured.filter(|longest| record.outcome == Outcome::Passed && took > *longest) {
            let (took, longest) = (took.as_secs_f64(), longest.as_secs_f64());
            record.outcome = Outcome::Failed(format!(
                "time limit exceeded: it took {took:.3} s, and RUST_TEST_TIME_INTEGRATION allows {longest:.3} s"
            ));
        }
        self.console.test_ended(&record);
        let stands = record.message().is_none();
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        stands || !self.fail_fast
    }

    fn attack(&self, attack: &'static Registration) -> attack::Played {
        panics::playing(|| {
            self.handle.block_on(async {
                match self.redroom().await {
                    Ok(redroom) => attack::play(attack, &redroom, self.attack_timeout, self.console.streams()).await,
                    Err(error) if self.may_be_ignored(&error) => attack::Played::ignored(error.to_string()),
                    Err(error) => attack::Played::could_not(&error),
                }
            })
        })
    }

    /// Where the process is about to end, an attack that lost its sandbox has no verdict, and no other begins.
    fn wait_if_interrupted(&self) {
        while self.interrupted.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    /// The session: started by whoever asks first.
    async fn redroom(&self) -> Result<Redroom> {
        self.redroom
            .get_or_init(|| async {
                let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).take();
                let settings = settings.ok_or_else(crate::slot::stopped)?;
                let profile = settings.profile.clone();
                let redroom = Redroom::with_settings(settings, self.console.clone()).await?;
                self.console.uses(&redroom.backend(), profile.as_deref(), redroom.evidence_folder());
                Ok(redroom)
            })
            .await
            .clone()
    }

    fn may_be_ignored(&self, error: &Error) -> bool {
        let required = match error.code() {
            "docker_unavailable" => self.required.docker,
            "jail_unavailable" => self.required.jail,
            _ => return false,
        };
        self.ignored_without_backend && !required
    }

    async fn stop(&self) {
        if let Some(Ok(redroom)) = self.redroom.get() {
            redroom.stop().await;
        }
    }

    /// What has ended so far, by name.
    fn records(&self) -> Vec<TestRecord> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner).clone();
        records.sort_by(|a, b| a.name().cmp(b.name()));
        records
    }

    /// Writes every file, whatever becomes of the others.
    fn report(&self, records: &[TestRecord]) -> Result<()> {
        let Reports { junit, step_summary, origin } = &self.reports;
        let junit = junit.as_ref().map_or(Ok(()), |path| junit::write(path, &origin.borrowed(), records));
        let ran = !records.is_empty();
        let summary = step_summary.as_ref().filter(|_| ran).map_or(Ok(()), |path| summary::append(path, records));
        junit.and(summary)
    }
}

fn could_not_run(error: &Error) -> ExitCode {
    notice(&visible(&error.to_string()));
    ExitCode::from(COULD_NOT_RUN)
}

/// A line on standard error. Where nobody reads it any more, there is nobody to tell: no reason to panic.
fn notice(line: &str) {
    let _ = writeln!(std::io::stderr(), "redroom: {line}");
}
