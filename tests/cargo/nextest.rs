//! `cargo nextest run`: a process for each attack.
//!
//! The suite is this executable. nextest is told of it as of a build that was made elsewhere, so that nothing is compiled.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use roxmltree::Document;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::engine;
use crate::place::{Ended, Place, ended, files_below, read, until};

/// The first run may have to make images.
const PATIENCE: Duration = Duration::from_secs(240);
/// What the documentation tells users to copy.
const CONFIG: &str = include_str!("nextest.toml");

fn program() -> PathBuf {
    std::env::var_os("REDROOM_TEST_NEXTEST").map_or_else(|| "cargo-nextest".into(), PathBuf::from)
}

pub(crate) fn is_there() -> bool {
    Command::new(program()).args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// A package of which this executable is the only test.
struct Package(Place);

impl Package {
    fn new() -> Self {
        let package = Package(Place::new());
        let write = |name: &str, text: &str| std::fs::write(package.0.path(name), text).unwrap();
        std::fs::create_dir(package.0.path(".config")).unwrap();
        write(".config/nextest.toml", CONFIG);
        write("lib.rs", "");
        write("attacks.rs", "fn main() {}");
        let manifest = "[package]\nname = \"shop\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n\
                        [[test]]\nname = \"attacks\"\npath = \"attacks.rs\"\nharness = false\n";
        write("Cargo.toml", manifest);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let asked = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--offline"])
            .current_dir(package.0.folder())
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
        write("cargo.json", &metadata.to_string());
        let binary = json!({
            "binary-id": "shop::attacks", "binary-name": "attacks", "package-id": metadata["packages"][0]["id"], "kind": "test",
            "binary-path": std::env::current_exe().unwrap(), "build-platform": "target",
        });
        let build = json!({
            "target-directory": metadata["target_directory"], "base-output-directories": ["debug"], "non-test-binaries": {},
            "build-script-out-dirs": {}, "linked-paths": [], "target-platforms": [], "target-platform": null,
        });
        std::fs::create_dir_all(package.0.path("target/debug")).unwrap();
        write(
            "binaries.json",
            &json!({ "rust-build-meta": build, "rust-binaries": { "shop::attacks": binary } }).to_string(),
        );
        package
    }

    fn nextest(&self, what: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["nextest", what, "--binaries-metadata"]).arg(self.0.path("binaries.json"));
        command.arg("--cargo-metadata").arg(self.0.path("cargo.json")).arg("--workspace-remap").arg(self.0.folder());
        command.args(arguments).current_dir(self.0.folder()).stdin(Stdio::null());
        self.0.settle(&mut command);
        command.env("CARGO_TERM_COLOR", "never").env("REDROOM_JUNIT", self.0.path("junit.xml"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.nextest("run", arguments))
    }

    fn report(&self) -> String {
        std::fs::read_to_string(self.0.path("junit.xml")).unwrap()
    }
}

/// Tests, failures, errors of a report.
fn counts(report: &str) -> [usize; 3] {
    let document = Document::parse(report).unwrap();
    ["tests", "failures", "errors"].map(|name| document.root_element().attribute(name).unwrap().parse().unwrap())
}

pub(crate) fn each_attack_is_listed_and_run_by_itself() {
    let package = Package::new();
    let listed = ended(&mut package.nextest("list", &["--message-format", "json", "--run-ignored", "all"]));
    let listed: Value = serde_json::from_str(&listed.out).unwrap_or_else(|error| panic!("{error}: {listed:#?}"));
    let cases = listed["rust-suites"]["shop::attacks"]["testcases"].as_object().unwrap();
    let by_hand = package.0.run(&["--list", "--format", "terse"]).out;
    assert_eq!(cases.keys().map(|name| format!("{name}: test\n")).collect::<String>(), by_hand);
    let ignored = cases.iter().filter(|(_, case)| case["ignored"] == true).map(|(name, _)| name.as_str());
    assert_eq!(
        ignored.collect::<Vec<_>>(),
        ["fixture::cases::pages::later", "fixture::ends::later", "fixture::ends::later_and_silent"]
    );

    let alone = package.0.run(&["fixture::ends::passes", "--exact", "--backend", "jail"]);
    let backends = if alone.code == Some(0) { &["docker", "jail"][..] } else { &["docker"] };
    for backend in backends {
        let arguments = ["-E", "test(/^fixture::ends/)", "--run-ignored", "all", "--no-fail-fast", "--retries", "0"];
        let ran = ended(package.nextest("run", &arguments).env("REDROOM_BACKEND", backend));
        ran.expect(100, &["6 tests run: 4 passed, 2 failed", "this is why", "that is why"]);
        assert!(!ran.err.contains("LEAK"), "{ran:#?}");
        assert_eq!(counts(&package.report()), [6, 2, 0], "{}", package.report());
        assert!(package.0.containers().is_empty(), "{:?}", package.0.containers());
    }
}

pub(crate) fn the_environment_chooses_attacks_by_their_tags() {
    let package = Package::new();
    let ran = ended(
        package
            .nextest("run", &["--no-fail-fast", "--retries", "0", "-E", "not test(for_ever)"])
            .env("REDROOM_TAGS", "web,calm")
            .env("REDROOM_SKIP_TAGS", "rude"),
    );
    ran.expect(0, &["2 tests run: 2 passed", "fixture::cases::pages::polite", "fixture::ends::passes"]);
    assert_eq!(counts(&package.report()), [2, 0, 0], "{}", package.report());
}

pub(crate) fn a_process_for_each_attack_does_not_ask_the_engine_each_time() {
    asks_no_more_than_one(1);
}

pub(crate) fn two_hundred_attacks_ask_the_engine_no_more_than_one() {
    asks_no_more_than_one(17);
}

/// Twelve attacks, so many times.
fn asks_no_more_than_one(times: usize) {
    let package = Package::new();
    let counter = Counter::before_engine(package.0.path("counted.sock"));
    let run = |filter: &str, times: usize| {
        let mut nextest = package.nextest("run", &["-j", "4", "-E", filter, "--stress-count", &times.to_string()]);
        ended(nextest.env("DOCKER_HOST", format!("unix://{}", counter.socket.display()))).expect(0, &["passed"]);
        counter.take()
    };
    let list = package
        .nextest("list", &[])
        .env("DOCKER_HOST", format!("unix://{}", counter.socket.display()))
        .output()
        .unwrap();
    assert!(list.status.success());
    assert_eq!(counter.take(), BTreeMap::new(), "a list asks nobody");
    // The first run may have to find everything out.
    run("test(m01)", 1);
    let (one, many) = (run("test(m01)", 1), run("test(/::m[0-9]/)", times));
    let attacks = 12 * times;
    for question in ["version", "info", "image", "build", "sweep"] {
        let count = |asked: &BTreeMap<&str, usize>| asked.get(question).copied().unwrap_or(0);
        assert!(count(&many) <= count(&one) + 4, "{question}: {one:?} for one attack, {many:?} for {attacks}");
    }
    let made = |asked: &BTreeMap<&str, usize>| asked.get("other").copied().unwrap_or(0);
    assert!(made(&many) >= attacks, "{many:?}");
}

/// A socket that leads to the engine, and counts what is asked of it.
struct Counter {
    socket: PathBuf,
    asked: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Counter {
    fn before_engine(socket: PathBuf) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let counted = asked.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = UnixStream::connect(engine::socket()).unwrap();
                let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let counted = counted.clone();
                thread::spawn(move || copy(near, far, |chunk| count(chunk, &counted)));
                thread::spawn(move || copy(far_again, near_again, |_| {}));
            }
        });
        Counter { socket, asked }
    }

    fn take(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream, seen: impl Fn(&[u8])) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        seen(&chunk[..length]);
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Counts the request that a chunk begins with: a client writes the head of one as a whole.
fn count(chunk: &[u8], asked: &Mutex<BTreeMap<&'static str, usize>>) {
    let line = String::from_utf8_lossy(&chunk[..chunk.len().min(2048)]);
    let Some((method, path)) = line.lines().next().and_then(|line| line.split_once(' ')) else { return };
    if !["GET", "POST", "DELETE", "HEAD", "PUT"].contains(&method) {
        return;
    }
    let question = match path {
        path if path.starts_with("/version") => "version",
        path if path.starts_with("/info") => "info",
        path if path.starts_with("/build") => "build",
        path if path.starts_with("/images") => "image",
        // What ends a session asks for its own containers; a sweep asks for all of redroom's.
        path if path.starts_with("/containers/json") && !path.contains("redroom.session") => "sweep",
        _ => "other",
    };
    *asked.lock().unwrap().entry(question).or_default() += 1;
}

pub(crate) fn no_more_runs_live_than_may_over_all_processes() {
    let package = Package::new();
    let over = AtomicBool::new(false);
    let most = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let sampled = Instant::now();
                let live = package.0.containers().iter().filter(|it| it.role == "agent" && it.running).count();
                most.fetch_max(live, Ordering::AcqRel);
                thread::sleep(Duration::from_millis(50).saturating_sub(sampled.elapsed()));
            }
        });
        let beside = scope.spawn(|| {
            let mut suite = package.0.suite(&["many", "--skip", "m1", "--parallel", "2"]);
            ended(&mut suite)
        });
        let ran = ended(package.nextest("run", &["-j", "8", "-E", "test(/::m[0-9]/)"]).env("REDROOM_PARALLEL", "2"));
        let beside = beside.join();
        over.store(true, Ordering::Release);
        ran.expect(0, &["12 tests run: 12 passed"]);
        beside.unwrap().expect(0, &["9 passed; 0 failed"]);
    });
    let most = most.load(Ordering::Acquire);
    assert!((1..=2).contains(&most), "{most} were live at once");
}

pub(crate) fn an_attack_that_is_tried_again_says_which_attempt_it_is() {
    let package = Package::new();
    let ran = package.run(&["--retries", "2", "-E", "test(fails_at_first)"]);
    ran.expect(0, &["1 test run: 1 passed (1 flaky)"]);
    let report = package.report();
    assert_eq!(counts(&report), [1, 0, 0], "{report}");
    assert!(report.contains("<flakyFailure") && report.contains("name=\"attempt\" value=\"2\""), "{report}");
    let folders: Vec<PathBuf> =
        files_below(&package.0.path("out")).into_iter().filter(|file| file.ends_with("result.json")).collect();
    let ends = |end: &str| folders.iter().any(|file| file.parent().unwrap().ends_with(end));
    assert!(ends("fixture.tries.fails_at_first") && ends("fixture.tries.fails_at_first.attempt-2"), "{folders:?}");
    let runs = std::fs::read_dir(package.0.path("out")).unwrap().count();
    assert_eq!(runs, 1, "one run has one folder");
}

pub(crate) fn shards_make_one_report() {
    let package = Package::new();
    for shard in ["count:1/2", "count:2/2"] {
        let mut nextest = package.nextest("run", &["--partition", shard, "-E", "test(/::m0[1-4]/)"]);
        ended(nextest.env("REDROOM_RUN", "nightly")).expect(0, &["2 tests run: 2 passed"]);
    }
    assert_eq!(counts(&package.report()), [4, 0, 0], "{}", package.report());
    // Another run begins anew.
    package.run(&["-E", "test(m01)"]).expect(0, &["1 passed"]);
    assert_eq!(counts(&package.report()), [1, 0, 0]);
}

pub(crate) fn an_interrupted_run_is_gone_within_five_seconds() {
    let package = Package::new();
    let mut nextest = package.nextest("run", &["-E", "test(for_ever)"]);
    let nextest = nextest.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let waits = || files_below(&package.0.path("out")).iter().any(|file| file.ends_with("hits.jsonl"));
    until("the turn", PATIENCE, waits);
    let sent = Instant::now();
    kill_process(Pid::from_child(&nextest), Signal::INT).unwrap();
    let ran = read(nextest.wait_with_output().unwrap());
    let took = sent.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}: {ran:#?}");
    assert!(!ran.err.contains("LEAK"), "{ran:#?}");
    until("nothing left", Duration::from_secs(5).saturating_sub(took), || package.0.containers().is_empty());
}
