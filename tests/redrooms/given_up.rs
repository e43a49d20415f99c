//! Tests that give up: a turn that nobody waits for, a run that nobody finishes.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use redroom::{Redroom, Result, Suite};

use crate::{start, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("given_up::a_turn_that_nobody_waits_for_is_told", || Suite::new().parallel(1), turn),
        trial("given_up::a_run_that_nobody_holds_gives_its_slot_back", || Suite::new().parallel(1), run),
    ]
}

async fn turn(redroom: Arc<Redroom>) -> Result<()> {
    let run = start(&redroom, "hasty").await?;
    let sent = tokio::time::timeout(Duration::from_secs(5), run.send("touch begun; sleep 600")).await;
    assert!(sent.is_err(), "{sent:?}");
    assert_eq!(run.send("pgrep -c sleep; ls begun").await?.final_text, "0\nbegun\n");
    let result = run.finish().await?;
    let turns: Vec<_> = result.turns.iter().map(|turn| (turn.index, turn.is_error)).collect();
    assert_eq!(turns, [(0, true), (1, false)]);
    let codes: Vec<_> = result.errors.iter().map(redroom::Error::code).collect();
    assert_eq!(codes, ["turn_given_up"]);
    assert!(!result.open_questions().is_empty());
    Ok(())
}

async fn run(redroom: Arc<Redroom>) -> Result<()> {
    drop(start(&redroom, "forgotten").await?);
    let next = tokio::time::timeout(Duration::from_secs(60), start(&redroom, "next")).await;
    let next = next.expect("the forgotten run still holds the only slot")?;
    assert_eq!(next.send("cat token").await?.final_text, "next-PLATYPUS-7731");
    next.finish().await?;
    let kept = std::fs::read_dir(redroom.evidence_folder()).expect("evidence").flatten();
    let results = kept.filter(|folder| folder.path().join("result.json").exists()).count();
    assert_eq!(results, 2, "the forgotten run has a result, too");
    Ok(())
}
