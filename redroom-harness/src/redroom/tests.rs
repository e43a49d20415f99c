//! The ends of runs and sessions over a backend that answers, or does not.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::time::Instant;

use super::*;
use crate::Shell;
use crate::backend::{
    BackendFacts, Ended, Exec, ExecEnd, Fate, OpenSlot, Program, Progress, Sandbox, SandboxSpec, Sink, Slot, SlotSpec,
    Stream, Visitor,
};
use crate::settings::Environment;

/// What never answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    Nothing,
    Freezing,
    Removing,
    Closing,
    Ending,
}

/// A backend in memory, with a real sidecar on no sockets.
#[derive(Clone)]
struct Fake {
    stuck: Stuck,
    ended: Arc<AtomicUsize>,
}

impl Fake {
    async fn reach(&self, step: Stuck) {
        if self.stuck == step {
            std::future::pending::<()>().await;
        }
        // Whoever asks at the same time gets to run.
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl Backend for Fake {
    fn facts(&self) -> BackendFacts {
        BackendFacts { name: "fake".to_owned(), isolated: true, why: "a trial".to_owned() }
    }

    async fn prepare(&self, _program: &Program, _progress: Progress<'_>) -> Result<Base> {
        Ok(Base("base".to_owned()))
    }

    async fn base_file(&self, _base: &Base, _path: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn open_slot(&self, _spec: SlotSpec) -> Result<OpenSlot> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(redroom_sidecar::serve(redroom_sidecar::Listeners::default(), near));
        Ok(OpenSlot { slot: Box::new(self.clone()), link: Box::new(far) })
    }

    async fn sweep(&self) -> Result<Swept> {
        Ok(Swept::default())
    }

    async fn end_session(&self, _session: &str) -> Result<()> {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.reach(Stuck::Ending).await;
        Ok(())
    }
}

#[async_trait]
impl Slot for Fake {
    async fn open_sandbox(&self, _spec: SandboxSpec) -> Result<Box<dyn Sandbox>> {
        Ok(Box::new(self.clone()))
    }

    fn last_words(&self) -> String {
        String::new()
    }

    async fn close(&self) -> Result<()> {
        self.reach(Stuck::Closing).await;
        Ok(())
    }
}

#[async_trait]
impl Sandbox for Fake {
    async fn exec(&self, _exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        let flow: ControlFlow<()> = sink.write(Stream::Out, b"said");
        assert!(flow.is_continue());
        Ok(ExecEnd { exit_code: Some(0), ended: Ended::Itself, duration: Duration::ZERO })
    }

    async fn read_file(&self, _path: &str, _limit: u64) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn freeze(&self) -> Result<()> {
        self.reach(Stuck::Freezing).await;
        Ok(())
    }

    async fn fate(&self) -> Result<Fate> {
        Ok(Fate::Alive { memory_exceeded: false })
    }

    async fn collect(&self, _roots: &[String], _visitor: &mut dyn Visitor) -> Result<()> {
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.reach(Stuck::Removing).await;
        Ok(())
    }
}

/// A session, how often its end was asked for, and its folders.
fn session(stuck: Stuck) -> (Redroom, Arc<AtomicUsize>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment { out: Some(folder.path().join("out")), ..Environment::default() };
    let settings = Settings::of(environment, Suite::new().agent(Shell::new())).unwrap();
    let locks = SlotLocks::of(RunFolder::at(&folder.path().join("run")).unwrap());
    let fake = Fake { stuck, ended: Arc::default() };
    let ended = fake.ended.clone();
    (Redroom::over(Arc::new(fake), locks, settings, Arc::new(Tracing)).unwrap(), ended, folder)
}

async fn run(redroom: &Redroom) -> Run {
    let run = redroom.start_run(RunOptions::new()).await.unwrap();
    run.send("anything").await.unwrap();
    run
}

fn codes(result: &crate::RunResult) -> Vec<&str> {
    result.errors.iter().map(Error::code).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_once_whoever_asks_and_however_often() {
    let (redroom, ended, _folder) = session(Stuck::Nothing);
    let run = run(&redroom).await;
    let others: Vec<_> = (0..5)
        .map(|_| {
            let redroom = redroom.clone();
            tokio::spawn(async move { redroom.stop().await })
        })
        .collect();
    redroom.stop().await;
    for other in others {
        other.await.unwrap();
    }
    redroom.stop().await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    assert_eq!(codes(&run.finish().await.unwrap()), ["redroom_stopped"]);
    assert_eq!(redroom.start_run(RunOptions::new()).await.unwrap_err().code(), "redroom_stopped");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_goes_on_when_nobody_waits_for_it() {
    let (redroom, ended, _folder) = session(Stuck::Nothing);
    let _run = run(&redroom).await;
    assert!(futures_util::FutureExt::now_or_never(redroom.stop()).is_none(), "it takes more than a moment");
    let mut stopped = redroom.0.stopped.subscribe();
    timeout(Duration::from_secs(60), stopped.wait_for(|stopped| *stopped)).await.unwrap().unwrap();
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_removed_ends_all_the_same() {
    let (redroom, ended, _folder) = session(Stuck::Ending);
    let asked = Instant::now();
    redroom.stop().await;
    assert!((REMOVAL_DEADLINE..2 * REMOVAL_DEADLINE).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    redroom.stop().await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_whatever_never_answers_and_its_result_says_what() {
    for (stuck, errors) in [
        (Stuck::Nothing, &[][..]),
        // What was not collected is told for each place.
        (Stuck::Freezing, &["finish_timeout", "not_collected"][..]),
        (Stuck::Removing, &["finish_timeout"][..]),
        (Stuck::Closing, &[][..]),
    ] {
        let (redroom, _, _folder) = session(stuck);
        let run = run(&redroom).await;
        let asked = Instant::now();
        let result = run.finish().await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(30 * 60), "{stuck:?}: {:?}", asked.elapsed());
        let mut found = codes(&result);
        found.dedup();
        assert_eq!(found, errors, "{stuck:?}");
        assert!(Arc::ptr_eq(&result, &run.finish().await.unwrap()));
        redroom.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_finished_once_whoever_asks_and_when_nobody_waits() {
    let (redroom, _, _folder) = session(Stuck::Nothing);
    let run = run(&redroom).await;
    assert!(futures_util::FutureExt::now_or_never(run.finish()).is_none(), "it takes more than a moment");
    let (one, other) = tokio::join!(run.finish(), run.finish());
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    let results = std::fs::read_dir(redroom.evidence_folder()).unwrap().count();
    assert_eq!(results, 1);
}
