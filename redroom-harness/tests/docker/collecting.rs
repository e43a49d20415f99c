//! What is taken out of a sandbox.

use libtest_mimic::Failed;
use redroom_harness::backend::CollectedKind;

use crate::Body;
use crate::fixture::{Collected, Fixture, file, said, same};

pub(crate) const TRIALS: &[(&str, Body)] = &[("a_frozen_sandbox_shows_what_the_agent_left", frozen)];

fn frozen(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(vec![file("/workspace/kept", 0o644, "kept")]).await?;
        said(&*sandbox, "echo new > new; echo log > /tmp/log; nohup sleep 1000 >/dev/null 2>&1 &").await?;
        sandbox.freeze().await?;
        sandbox.freeze().await?;
        let collected = Collected::of(&*sandbox, &["/workspace", "/tmp", "/nowhere"]).await?;
        same(collected.text("/workspace/kept")?.as_str(), "kept", "kept")?;
        same(collected.text("/workspace/new")?.as_str(), "new\n", "new")?;
        same(collected.text("/tmp/log")?.as_str(), "log\n", "log")?;
        same(collected.kind("/workspace")?, &CollectedKind::Folder, "the root itself")?;
        sandbox.remove().await?;
        sandbox.remove().await?;
        Ok(())
    })
}
