//! What is taken out of a sandbox.

#[path = "hostile_tree.rs"]
mod hostile_tree;

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::{AGENT_UID, CollectedKind, WORKSPACE};

use self::hostile_tree::{ROWS, SCRIPT};
use crate::Body;
use crate::fixture::{Collected, Fixture, MIB, agent_of, containers, ensure, file, said, same};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("a_frozen_sandbox_shows_what_the_agent_left", frozen),
    ("a_hostile_tree_is_shown_as_it_is", hostile),
    ("a_sparse_file_cannot_hold_the_collection_up", sparse),
    ("single_files_are_read_and_links_are_not_followed", single),
    ("the_frozen_agent_does_not_move", still),
];

fn frozen(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(vec![file("/workspace/kept", 0o644, "kept")]).await?;
        said(&*sandbox, "echo new > new; echo log > /tmp/log; nohup sleep 1000 >/dev/null 2>&1 &").await?;
        sandbox.freeze().await?;
        sandbox.freeze().await?;
        let collected =
            Collected::of(&*sandbox, &["/workspace", "/tmp", "/nowhere", "/home/agent", "/var/tmp", "/run/lock"])
                .await?;
        same(collected.text("/workspace/kept")?.as_str(), "kept", "kept")?;
        same(collected.text("/workspace/new")?.as_str(), "new\n", "new")?;
        same(collected.text("/tmp/log")?.as_str(), "log\n", "log")?;
        for root in ["/workspace", "/home/agent", "/var/tmp", "/run/lock"] {
            same(collected.kind(root)?, &CollectedKind::Folder, root)?;
        }
        same(&collected.missed, &Vec::new(), "missed")?;
        sandbox.remove().await?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn hostile(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        said(&*sandbox, &format!("python3 - <<'END'{SCRIPT}END")).await?;
        sandbox.freeze().await?;
        let collected = Collected::of(&*sandbox, &[WORKSPACE]).await?;
        for row in ROWS {
            let path = row.path(WORKSPACE);
            let (entry, content) = collected.get(&path)?;
            same(&entry.kind, &row.kind(WORKSPACE), path.escape_ascii())?;
            same(content, &row.content(), path.escape_ascii())?;
            same(entry.mode, row.mode.unwrap_or(entry.mode), path.escape_ascii())?;
            same((entry.uid, entry.gid), (AGENT_UID, AGENT_UID), path.escape_ascii())?;
        }
        same(collected.get("/workspace/socket").is_err(), true, "a socket is not in an archive")?;
        // Deeper than a path can be named: the engine cannot reach it, and we say so.
        let longest = collected.entries.keys().map(Vec::len).max().unwrap_or(0);
        ensure(longest > 3500, || format!("the longest path has {longest} bytes"))?;
        let missed = |(path, why): &(Vec<u8>, String)| path.starts_with(b"/workspace/ddd") && why.contains("deep");
        same(collected.missed.iter().any(missed), true, "what lies too deep is missed")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn sparse(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.limited(Vec::new(), |limits| limits.file_size = 2 * MIB * MIB).await?;
        said(&*sandbox, "echo a > a; truncate -s 1T sparse; echo z > /tmp/z").await?;
        sandbox.freeze().await?;
        let begun = Instant::now();
        let collected = Collected::of(&*sandbox, &["/workspace", "/tmp"]).await?;
        ensure(begun.elapsed() < Duration::from_secs(60), || format!("it took {:?}", begun.elapsed()))?;
        same(collected.missed.len(), 1, "what was missed")?;
        same(collected.text("/tmp/z")?.as_str(), "z\n", "the next root")?;
        sandbox.remove().await?;

        let bounded = place.sandbox(Vec::new()).await?;
        let refused = said(&*bounded, "truncate -s 1T sparse 2>/dev/null || echo refused").await?;
        same(refused.contains("refused"), true, "a file larger than the limit")?;
        bounded.remove().await?;
        Ok(())
    })
}

fn single(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(vec![file("/workspace/file", 0o644, "content")]).await?;
        said(&*sandbox, "ln -s /etc/passwd link; mkfifo fifo; head -c 100000 /dev/zero > large").await?;
        same(sandbox.read_file("/workspace/file", 7).await?, Some(b"content".to_vec()), "file")?;
        for nothing in ["/workspace/absent", "/workspace/link", "/workspace/fifo", "/workspace", "/usr"] {
            same(sandbox.read_file(nothing, 1000).await?, None, nothing)?;
        }
        let error = sandbox.read_file("/workspace/large", 99_999).await.err();
        same(error.as_ref().map(|error| error.code()), Some("read_output_too_large"), "large")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn still(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        said(
            &*sandbox,
            "nohup sh -c 'while :; do echo x >> growing; done' >/dev/null 2>&1 & until [ -s growing ]; do :; done",
        )
        .await?;
        sandbox.freeze().await?;
        // Between two looks it may have had no processor.
        let agent = format!("/{}", agent_of(&place).await);
        let states = containers(&fixture.session).await;
        same(states.get(&agent).is_some_and(|state| state == "running"), false, "whether it goes on")?;
        let before = Collected::of(&*sandbox, &["/workspace/growing"]).await?;
        let after = Collected::of(&*sandbox, &["/workspace/growing"]).await?;
        same(before.kind("/workspace/growing")?, after.kind("/workspace/growing")?, "its size")?;
        sandbox.remove().await?;
        Ok(())
    })
}
