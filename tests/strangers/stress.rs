//! stress-ng: every limit holds, what was done before is on record, and nobody else notices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use redroom::{Limits, Redroom, Result, RunOptions};

use crate::beside::{Neighbour, codes};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("stress::everything_at_once_costs_no_evidence_and_disturbs_nobody", &["stress-ng"], everything)]
}

async fn everything(redroom: Arc<Redroom>) -> Result<()> {
    let limits = Limits::new().cpus(1).memory("256m").pids(200).file_size("32m").turn_timeout(Duration::from_secs(120));
    let options = RunOptions::new().name("stress").limits(limits);
    let (run, neighbour) = tokio::join!(redroom.start_run(options), Neighbour::start(&redroom));
    let (run, neighbour) = (run?, neighbour?);
    let before = run.send("echo here > trace; curl -sS -d x http://t.redroom.test/before").await?;
    assert_eq!(before.final_text, "ok", "{}", before.stderr);
    let script = "stress-ng --timeout 10s --temp-path /tmp --oomable --vm 2 --vm-bytes 256m --fork 2 --sock 2 --udp 2 --hdd 1 \
                  --hdd-bytes 64m --dir 1 --switch 2 --pipe 2 --mmap 1 2>&1; echo ended $?";
    let (sent, beside) = neighbour.beside(&redroom, run.send(script)).await?;
    beside.assert_unnoticed();
    assert!(beside.took < Duration::from_secs(90), "{beside}");
    // Where no control group holds memory, a watchdog ends what takes too much of it.
    let watched = match sent {
        Ok(turn) => {
            // It came to its end, and past no limit: files are as large as they may be.
            assert!(turn.final_text.contains("\nended ") && turn.final_text.contains("File too large"), "{turn:?}");
            let after = run.send("echo alive; curl -sS -m 60 -d x http://t.redroom.test/after").await?;
            assert_eq!(after.final_text, "alive\nok", "{}", after.stderr);
            false
        }
        Err(error) if error.code() == "out_of_memory" => true,
        Err(error) => return Err(error),
    };
    let began = Instant::now();
    let result = run.finish().await?;
    assert!(began.elapsed() < Duration::from_secs(60), "the end took {:?}", began.elapsed());
    assert!(
        !watched || result.best_effort.iter().any(|limit| limit.starts_with("memory:")),
        "{:?}",
        result.best_effort
    );
    assert_eq!(codes(&result), if watched { &["out_of_memory"][..] } else { &[] }, "{:?}", result.errors);
    assert!(result.changes.iter().any(|change| change.path.as_bytes() == b"/workspace/trace"), "{:?}", result.changes);
    assert!(result.hits.iter().any(|hit| hit.path == "/before"), "{:?}", result.hits);
    neighbour.finish().await
}
