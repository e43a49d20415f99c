//! A run that does its worst, and one beside it: how long the neighbour's turns take before and meanwhile, and how much memory
//! the machinery needs for both. What is measured is printed: a bound that holds says little of how far it is away.

use std::fmt;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use redroom::{Limits, Redroom, Run, RunOptions, RunResult};

/// The most that a sidecar may ever have had in memory, in KiB.
const SIDECAR: u64 = 128 * 1024;
/// The most by which this process may have grown for what a run did, in KiB: its journal, and the answer that a turn keeps. On the
/// jail the sidecars of both runs are threads of this process, too.
const HARNESS: u64 = 128 * 1024;
/// The most that a turn of the neighbour's may take longer than alone, in the middle of all and at worst. Not what anybody should
/// notice: what a loaded machine may do.
const LATER: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
/// How many turns the neighbour takes before the other begins, and at least meanwhile.
const TURNS: usize = 5;
/// How often it takes one: it is to notice what the other does, not to be a flood itself.
const PAUSE: Duration = Duration::from_millis(500);

const PAGE: &str = "http://page.redroom.test/";

/// Who lives next door.
pub(crate) struct Neighbour(Run);

impl Neighbour {
    /// One with a page of its own to read, and a secret that nobody tells.
    pub(crate) async fn start(redroom: &Redroom) -> redroom::Result<Self> {
        let options = RunOptions::new()
            .name("neighbour")
            .limits(Limits::new().memory("256m").pids(64))
            .workspace([("token", "${secrets.token}")])
            .pages([(PAGE, "page of the neighbour")])
            .secrets([("token", "neighbour-PLATYPUS-7731")]);
        redroom.start_run(options).await.map(Neighbour)
    }

    /// One turn: how long it took.
    async fn turn(&self) -> redroom::Result<Duration> {
        let began = Instant::now();
        let turn = self.0.send(format!("curl -sS -m 30 {PAGE}")).await?;
        assert_eq!(turn.final_text, "page of the neighbour", "{}", turn.stderr);
        Ok(began.elapsed())
    }

    /// Takes turns before `worst` and until it has ended.
    pub(crate) async fn beside<T>(
        &self,
        redroom: &Redroom,
        worst: impl Future<Output = T>,
    ) -> redroom::Result<(T, Beside)> {
        let mut alone = Vec::new();
        for _ in 0..TURNS {
            alone.push(self.turn().await?);
        }
        let before = OwnMemory::from_now_on();
        let began = Instant::now();
        let (done, mut ended) = tokio::sync::watch::channel(false);
        let worst = async {
            let worst = worst.await;
            let took = began.elapsed();
            // Nobody listens any more who was disturbed: that is an error of its own.
            let _ = done.send(true);
            (worst, took)
        };
        let meanwhile = async {
            let mut meanwhile = Vec::new();
            while !*ended.borrow() || meanwhile.len() < TURNS {
                meanwhile.push(self.turn().await?);
                let _ = tokio::time::timeout(PAUSE, ended.wait_for(|ended| *ended)).await;
            }
            redroom::Result::Ok(meanwhile)
        };
        let ((worst, took), meanwhile) = tokio::join!(worst, meanwhile);
        let sidecars = peaks_of_sidecars(redroom.session());
        let on_engine = redroom.backend().name.starts_with("docker") && UnixStream::connect(SOCKET).is_ok();
        assert_eq!(sidecars.len(), if on_engine { 2 } else { 0 }, "{sidecars:?}");
        let beside = Beside { took, alone, meanwhile: meanwhile?, sidecars, harness: before.grown() };
        println!("{beside}");
        Ok((worst, beside))
    }

    /// Its run is as if it had been alone.
    pub(crate) async fn finish(self) -> redroom::Result<()> {
        let result = self.0.finish().await?;
        assert_eq!((result.errors.as_slice(), result.leaks().len()), (&[][..], 0));
        assert!(result.hits.iter().all(|hit| hit.host == "page.redroom.test"), "{:?}", result.hits);
        Ok(())
    }
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Beside {
    /// How long the worst took.
    pub(crate) took: Duration,
    alone: Vec<Duration>,
    meanwhile: Vec<Duration>,
    /// The most that each sidecar ever had, in KiB; none on the jail.
    sidecars: Vec<u64>,
    /// How much more this process had than before, in KiB.
    harness: u64,
}

impl Beside {
    /// Nobody noticed anything, and nothing grew.
    pub(crate) fn assert_unnoticed(&self) {
        let [usual, worst] = LATER.map(|later| median(&self.alone) + later);
        assert!(median(&self.meanwhile) <= usual, "the neighbour was held up: {self}");
        assert!(self.meanwhile.iter().all(|turn| *turn <= worst), "the neighbour was held up once: {self}");
        assert!(self.sidecars.iter().all(|peak| *peak <= SIDECAR), "a sidecar grew: {self}");
        assert!(self.harness <= HARNESS, "this process grew: {self}");
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.meanwhile.iter().max().copied().unwrap_or_default();
        write!(
            f,
            "{:.1} s; a turn next door took {:.2} s alone, {:.2} s meanwhile, {:.2} s at most of {}; sidecars had at most {:?} MiB; \
             this process grew by {} MiB",
            self.took.as_secs_f64(),
            median(&self.alone).as_secs_f64(),
            median(&self.meanwhile).as_secs_f64(),
            longest.as_secs_f64(),
            self.meanwhile.len(),
            self.sidecars.iter().map(|peak| peak / 1024).collect::<Vec<_>>(),
            self.harness / 1024,
        )
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The codes of a run's errors.
pub(crate) fn codes(result: &RunResult) -> Vec<&str> {
    result.errors.iter().map(redroom::Error::code).collect()
}

/// The memory of this process, as the kernel counts it.
struct OwnMemory(u64);

impl OwnMemory {
    fn from_now_on() -> Self {
        // Forgets the peak so far; a kernel that does not leaves the bound stricter than it need be.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        OwnMemory(in_status("self", "VmRSS:").unwrap_or_default())
    }

    fn grown(&self) -> u64 {
        in_status("self", "VmHWM:").unwrap_or_default().saturating_sub(self.0)
    }
}

fn in_status(process: &str, what: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(what)?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

const SOCKET: &str = "/var/run/docker.sock";

/// The most memory that each sidecar of a session ever had, as the kernel counts it from outside.
fn peaks_of_sidecars(session: &str) -> Vec<u64> {
    let listed = ask(&format!("/containers/json?filters=%7B%22label%22%3A%5B%22redroom.session%3D{session}%22%5D%7D"));
    let ids = listed.as_array().into_iter().flatten().filter_map(|container| container["Id"].as_str());
    let processes = ids.map(|id| ask(&format!("/containers/{id}/json")));
    let sidecars =
        processes.filter(|container| container["Path"].as_str().is_some_and(|path| path.contains("sidecar")));
    sidecars.filter_map(|container| in_status(&container["State"]["Pid"].as_u64()?.to_string(), "VmHWM:")).collect()
}

fn ask(path: &str) -> serde_json::Value {
    let Ok(mut engine) = UnixStream::connect(SOCKET) else { return serde_json::Value::Null };
    let mut answer = String::new();
    let asked =
        write!(engine, "GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n").and_then(|()| engine.read_to_string(&mut answer));
    let body = asked.ok().and_then(|_| answer.split_once("\r\n\r\n")).map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}
