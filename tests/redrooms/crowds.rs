//! Many runs: at once, and one after the other without anything growing. `REDROOM_TEST_SOAK=1` has many more of them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use redroom::{Limits, Redroom, Result, RunOptions, Suite};
use serde_json::Value;

use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("crowds::many_runs_at_once_are_each_their_own", || Suite::new().parallel(at_once()), together),
        trial("crowds::many_runs_one_after_the_other_let_nothing_grow", || Suite::new().parallel(1), in_a_row),
    ]
}

fn is_soaked() -> bool {
    std::env::var("REDROOM_TEST_SOAK").is_ok_and(|soak| soak == "1")
}

fn at_once() -> u32 {
    if is_soaked() { 64 } else { 16 }
}

fn how_many() -> u32 {
    if is_soaked() { 1000 } else { 40 }
}

/// What the first runs make once and keep.
const WARM_UP: u32 = 10;
/// Threads that a runtime has for what blocks come and go.
const SOME_THREADS: usize = 8;
/// What an allocator keeps for later; a thousand runs that left 32 KiB each would be past it.
const SOME_MEMORY: usize = 24;
const SETTLED: Duration = Duration::from_secs(20);

/// One run to its end: it says its number, and tells it to a page.
async fn whole(redroom: &Redroom, number: u32) -> Result<()> {
    let limits = Limits::new().memory("64m").pids(64);
    let run = redroom.start_run(RunOptions::new().name(format!("run-{number}")).limits(limits)).await?;
    let turn = run.send(format!("curl -sS -o /dev/null http://t.redroom.test/{number} && echo {number}")).await?;
    assert_eq!(turn.final_text, format!("{number}\n"), "{}", turn.stderr);
    let result = run.finish().await?;
    let paths: Vec<&str> = result.hits.iter().filter(|hit| hit.body_bytes == 0).map(|hit| hit.path.as_str()).collect();
    assert!(paths.contains(&format!("/{number}").as_str()), "{paths:?}");
    assert_eq!(result.errors, [], "run {number}");
    Ok(())
}

async fn together(redroom: Arc<Redroom>) -> Result<()> {
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..at_once() {
        let redroom = redroom.clone();
        runs.spawn(async move { whole(&redroom, number).await });
    }
    while let Some(ended) = runs.join_next().await {
        ended.expect("a run does not panic")?;
    }
    assert!(redroom.unattributed_hits().is_empty());
    Ok(())
}

async fn in_a_row(redroom: Arc<Redroom>) -> Result<()> {
    let backend = redroom.start_run(RunOptions::new().name("first")).await?.finish().await?.backend.name.clone();
    let backend = backend.split(' ').next().unwrap_or_default().to_owned();
    for number in 0..WARM_UP {
        whole(&redroom, number).await?;
    }
    let before = holdings(redroom.session());
    for number in 0..how_many() {
        whole(&redroom, number).await?;
    }
    let deadline = std::time::Instant::now() + SETTLED;
    loop {
        let after = holdings(redroom.session());
        let room = |what: &str| match what {
            "threads" => SOME_THREADS,
            "memory in MiB" => SOME_MEMORY,
            // Those of the last run may be on their way out, one for each controller.
            "groups" => 3,
            _ => 1,
        };
        let grown: Vec<_> = after.iter().filter(|(what, now)| **now > before[*what] + room(what)).collect();
        if grown.is_empty() {
            eprintln!("{} runs on {backend}: {before:?}, then {after:?}", how_many());
            return Ok(());
        }
        assert!(std::time::Instant::now() < deadline, "grown: {grown:?}; before: {before:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What this process and the session have of the machine, by name.
fn holdings(session: &str) -> BTreeMap<&'static str, usize> {
    let names = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let lines = |file: &str| std::fs::read_to_string(file).map_or(0, |text| text.lines().count());
    BTreeMap::from([
        ("descriptors", names("/proc/self/fd")),
        ("threads", names("/proc/self/task")),
        ("processes", descendants(&std::process::id().to_string())),
        ("mounts", lines("/proc/self/mountinfo")),
        ("temporary", temporary()),
        ("groups", groups(session)),
        ("memory in MiB", resident() >> 10),
        ("objects of the engine", objects(session)),
    ])
}

/// KiB of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    size.and_then(|size| size.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_else(|| panic!("{status}"))
}

/// Containers, networks and volumes of the session; none without an engine.
fn objects(session: &str) -> usize {
    let label = format!("filters=%7B%22label%22%3A%5B%22redroom.session%3D{session}%22%5D%7D");
    ["/containers/json?all=true&", "/networks?", "/volumes?"]
        .iter()
        .map(|kind| counted(&format!("{kind}{label}")))
        .sum()
}

/// How many there are in the engine's answer.
fn counted(question: &str) -> usize {
    let Ok(mut engine) = UnixStream::connect("/var/run/docker.sock") else { return 0 };
    write!(engine, "GET {question} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    engine.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{question}: {answer}"));
    let answer: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{question}: {error}: {body}"));
    answer.as_array().or_else(|| answer["Volumes"].as_array()).map_or(0, Vec::len)
}

fn descendants(of: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().map(|child| 1 + descendants(child)).sum::<usize>()).sum()
}

/// The session's control groups, in the nodes at the tops of the hierarchies: none on an engine.
fn groups(session: &str) -> usize {
    let tops = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let nodes = tops.chain(["/sys/fs/cgroup".into()]).filter_map(|top| std::fs::read_dir(top.join("redroom")).ok());
    nodes.flatten().flatten().filter(|entry| entry.file_name().to_string_lossy().contains(session)).count()
}

/// Everything in the folder for temporary files, which is this suite's own.
fn temporary() -> usize {
    fn within(folder: &Path) -> usize {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.map(|entry| 1 + if entry.path().is_symlink() { 0 } else { within(&entry.path()) }).sum()
    }
    within(&std::env::temp_dir())
}
