//! `main` of a suite: arguments and registry in, trials through the pool, exit code out.
//!
//! libtest's manners are libtest-mimic's; everything else here is ours. Listing starts nothing: no runtime, no engine, no
//! word on standard output but the list.

mod attack;
mod command_line;
mod panics;
mod signals;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Handle;

use command_line::CommandLine;

use crate::error::{Error, Result};
use crate::redroom::Redroom;
use crate::registry::{Ignore, Registration};
use crate::report::junit::{self, Outcome, TestRecord};
use crate::settings::Settings;
use crate::suite::Suite;
use crate::visible::{visible, visible_line};

/// The exit code where the suite could not run at all: a broken file of settings, no attacks, two of one name.
const COULD_NOT_RUN: u8 = 2;
/// The exit code where something failed, as libtest has it.
const FAILED: u8 = 101;

/// Everything that the trials of one process share.
struct Runner {
    handle: Handle,
    settings: Mutex<Option<Settings>>,
    /// Started by the first trial that runs; `None` once it has been stopped.
    redroom: tokio::sync::OnceCell<Result<Redroom>>,
    ignored_without_backend: bool,
    required: Required,
    records: Mutex<Vec<TestRecord>>,
    junit: Option<std::path::PathBuf>,
    attack_timeout: Duration,
    /// Raised by a signal: the process ends with the signal's code as soon as everything is removed, and nothing else is told.
    interrupted: AtomicBool,
}

/// Backends that must be there.
struct Required {
    docker: bool,
    jail: bool,
}

/// `main` of a suite: what `redroom::main!()` expands to. `manifest_dir` is the crate's folder when it was compiled.
pub fn run(suite: impl FnOnce() -> Suite, manifest_dir: &'static str) -> ExitCode {
    crate::init();
    let line = match CommandLine::parse(std::env::args_os()) {
        Ok(line) => line,
        Err(code) => return code,
    };
    let registrations = match crate::registry::attacks() {
        Ok(registrations) => registrations,
        Err(error) => return could_not_run(&error),
    };
    let arguments = line.for_tests(&registrations.iter().map(|attack| listed(attack)).collect::<Vec<_>>());
    if arguments.list {
        return list(&arguments, &registrations);
    }
    match run_attacks(arguments, registrations, suite().manifest_dir(manifest_dir)) {
        Ok(code) => code,
        Err(error) => could_not_run(&error),
    }
}

fn run_attacks(
    mut arguments: Arguments,
    registrations: Vec<&'static Registration>,
    mut suite: Suite,
) -> Result<ExitCode> {
    if let Some(threads) = arguments.test_threads {
        suite.parallel = Some(u32::try_from(threads).unwrap_or(u32::MAX));
    }
    let mut settings = Settings::load(suite)?;
    if let Some(threads) = arguments.test_threads {
        settings.set_parallel(threads)?;
    }
    // A thread waits for its attack; more of them than attacks would wait for nothing.
    arguments.test_threads = Some((settings.parallel as usize).min(registrations.len()).max(1));
    if let Some(path) = &settings.environment.junit {
        junit::check(path)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("redroom")
        .build()
        .map_err(|error| Error::redroom("no_runtime", format!("the async runtime cannot start: {error}")))?;
    panics::install();
    let runner = Arc::new(Runner {
        handle: runtime.handle().clone(),
        ignored_without_backend: settings.ignored_without_backend,
        required: Required {
            docker: settings.environment.requires("docker"),
            jail: settings.environment.requires("jail"),
        },
        junit: settings.environment.junit.clone(),
        attack_timeout: settings.attack_timeout(),
        settings: Mutex::new(Some(settings)),
        redroom: tokio::sync::OnceCell::new(),
        interrupted: AtomicBool::new(false),
        records: Mutex::new(passed_over(&arguments, &registrations)),
    });
    runtime.spawn(signals::end_on_signal(runner.clone()));
    let trials = registrations.into_iter().map(|attack| trial(attack, runner.clone())).collect();
    // Printing panics where nobody reads standard output any more; what was started is removed all the same.
    let played = catch_unwind(AssertUnwindSafe(|| libtest_mimic::run(&arguments, trials)));
    runner.wait_if_interrupted();
    runtime.block_on(runner.stop());
    runner.wait_if_interrupted();
    let reported = runner.report();
    runtime.shutdown_timeout(Duration::from_secs(2));
    match (reported, played) {
        (Err(error), _) => Ok(could_not_run(&error)),
        (Ok(()), Ok(conclusion)) => Ok(conclusion.exit_code()),
        (Ok(()), Err(_)) => Ok(ExitCode::from(FAILED)),
    }
}

/// Prints the list, as libtest does: a reader that goes away ends it, and anything else that keeps it from being printed is
/// an error.
fn list(arguments: &Arguments, registrations: &[&'static Registration]) -> ExitCode {
    let mut text = String::new();
    for attack in registrations {
        if !arguments.is_filtered_out(&listed(attack)) {
            text.push_str(attack.test_name());
            text.push_str(": test\n");
        }
    }
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

/// A trial that is never run.
fn listed(attack: &Registration) -> Trial {
    Trial::test(attack.test_name(), || Ok(())).with_ignored_flag(attack.is_ignored())
}

/// The attacks that are asked for but ignored: they stand in the report, too.
fn passed_over(arguments: &Arguments, registrations: &[&'static Registration]) -> Vec<TestRecord> {
    let ignored = |attack: &&&'static Registration| {
        let trial = listed(attack);
        arguments.is_ignored(&trial) && !arguments.is_filtered_out(&trial)
    };
    let skipped = |attack: &&'static Registration| {
        let reason = match attack.ignore {
            Ignore::Because(reason) => reason,
            Ignore::Yes | Ignore::No => "",
        };
        record(attack, Duration::ZERO, attack::Played::ignored(reason.to_owned()))
    };
    registrations.iter().filter(ignored).map(skipped).collect()
}

fn record(attack: &Registration, duration: Duration, played: attack::Played) -> TestRecord {
    TestRecord {
        name: attack.test_name().to_owned(),
        crate_name: attack.crate_name().to_owned(),
        file: attack.file.to_owned(),
        line: attack.line,
        duration,
        outcome: played.outcome,
        properties: played.properties,
    }
}

fn trial(attack: &'static Registration, runner: Arc<Runner>) -> Trial {
    Trial::ignorable_test(attack.test_name(), move || runner.attack(attack)).with_ignored_flag(attack.is_ignored())
}

impl Runner {
    fn attack(&self, attack: &'static Registration) -> std::result::Result<Completion, Failed> {
        self.wait_if_interrupted();
        let began = std::time::Instant::now();
        let played = self.handle.block_on(async {
            match self.redroom().await {
                Ok(redroom) => attack::play(attack, &redroom, self.attack_timeout).await,
                Err(error) if self.may_be_ignored(&error) => attack::Played::ignored(error.to_string()),
                Err(error) => attack::Played::could_not(error),
            }
        });
        self.wait_if_interrupted();
        if let Some(line) = &played.notice {
            notice(&visible_line(line));
        }
        let record = record(attack, began.elapsed(), played);
        let outcome = record.outcome.clone();
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        match outcome {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
            Outcome::Failed(message) | Outcome::Error(message) => Err(Failed::from(visible(&message))),
        }
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
                let redroom = Redroom::with_settings(settings, |line| notice(&visible_line(line))).await?;
                let facts = redroom.backend();
                let folder = redroom.evidence_folder().display();
                notice(&format!("{} ({}); evidence in {folder}", facts.name, facts.why));
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

    fn report(&self) -> Result<()> {
        let Some(path) = &self.junit else { return Ok(()) };
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner).clone();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        junit::write(path, &records)
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
