//! What a sandbox holds, and what is taken out of it.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::{Backend, Owner, PlacedEntry, PlacedKind, Program, SandboxLimits, SandboxSpec};

use crate::Body;
use crate::fixture::{Collected, Fixture, MIB, ensure, eventually, mark, processes_with, said, same};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("what_is_placed_is_there_and_belongs_to_whom_it_should", placed),
    ("what_the_agent_left_is_collected_when_all_is_dead", collected),
    ("the_machines_own_files_are_not_there", hidden),
    ("a_program_may_lie_where_nobody_else_can_look", program),
    ("a_slot_takes_one_sandbox_after_the_other_in_little_time", again),
];

/// Many times what it takes where nobody else wants the processors.
const LITTLE: Duration = Duration::from_millis(800);

fn file(path: &str, owner: Owner, content: &str) -> PlacedEntry {
    let kind = PlacedKind::File(content.as_bytes().to_vec().into());
    PlacedEntry { path: path.to_owned(), kind, mode: 0o644, owner }
}

fn placed(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place
            .sandbox(vec![
                file("/etc/agent/settings", Owner::Root, "settings"),
                file("/usr/local/share/ca-certificates/own.crt", Owner::Root, "certificate"),
                file("/usr/bin/zz-new", Owner::Root, "new"),
                file("/home/agent/.config/fixed", Owner::Root, "fixed"),
                file("/opt/tool/notes", Owner::Agent, "notes"),
                file("/workspace/a/b", Owner::Agent, "b"),
            ])
            .await?;
        let script = "cat /etc/agent/settings /usr/local/share/ca-certificates/own.crt /usr/bin/zz-new ~/.config/fixed \
                          /opt/tool/notes a/b; echo
             for file in /etc/agent/settings /usr/local/share/ca-certificates/own.crt /usr/bin/zz-new ~/.config/fixed; do
               { echo x >> $file; } 2>/dev/null && echo wrote $file
               rm -f $file 2>/dev/null; test -e $file || echo removed $file
             done
             echo more >> /opt/tool/notes; echo more >> a/b; type -P env";
        let text = said(&*sandbox, script).await?;
        same(text.as_str(), "settingscertificatenewfixednotesb\n/usr/bin/env\n", "what the agent sees")?;
        same(sandbox.read_file("/etc/agent/settings", 100).await?, Some(b"settings".to_vec()), "read from outside")?;
        sandbox.freeze().await?;
        let collected = Collected::of(&*sandbox, &["/opt/tool/notes", "/workspace"]).await?;
        same(collected.text("/opt/tool/notes").as_deref(), Some("notesmore\n"), "a file outside of the trees")?;
        same(collected.text("/workspace/a/b").as_deref(), Some("bmore\n"), "a file in the workspace")?;
        Ok(sandbox.remove().await?)
    })
}

fn collected(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(vec![file("/workspace/kept", Owner::Agent, "kept")]).await?;
        let script = "echo new > new; ln -s /etc/passwd link; mkfifo fifo; chmod 000 kept; echo log > /tmp/log
             nohup sh -c 'while :; do echo x >> growing; done' >/dev/null 2>&1 & until [ -s growing ]; do :; done";
        said(&*sandbox, script).await?;
        let mark = mark();
        said(&*sandbox, &format!("setsid sleep {mark} >/dev/null 2>&1 &")).await?;
        eventually(Duration::from_secs(5), "it is there", || processes_with(&mark) == 1)?;
        sandbox.freeze().await?;
        same(processes_with(&mark), 0, "processes that live")?;
        sandbox.freeze().await?;
        let roots = ["/workspace", "/tmp", "/nowhere", "/home/agent", "/var/tmp", "/run/lock"];
        let (before, after) = (Collected::of(&*sandbox, &roots).await?, Collected::of(&*sandbox, &roots).await?);
        for (path, content) in [("/workspace/kept", "kept"), ("/workspace/new", "new\n"), ("/tmp/log", "log\n")] {
            same(before.text(path).as_deref(), Some(content), path)?;
        }
        same(before.0.get("/workspace/kept").map(|(entry, _)| entry.mode), Some(0), "a mode")?;
        same(before.0.len(), after.0.len(), "entries")?;
        same(
            before.text("/workspace/growing").map(|text| text.len()),
            after.text("/workspace/growing").map(|text| text.len()),
            "what grew",
        )?;
        sandbox.remove().await?;
        Ok(sandbox.remove().await?)
    })
}

fn hidden(fixture: &Fixture) -> Result<(), Failed> {
    let secret = tempfile::Builder::new().prefix("redroom-secret").tempdir_in("/tmp")?;
    std::fs::write(secret.path().join("key"), "key")?;
    let secret = secret.path().display().to_string();
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let script = format!(
            "ls {secret} /root /sys/kernel /etc/shadow /run/docker.sock /var/run/docker.sock /var/lib 2>/dev/null
             ls -A /run /opt /srv /mnt /sys | tr '\\n' ' '
             touch /usr/x /etc/x /x 2>/dev/null; mount -t tmpfs x /mnt 2>/dev/null && echo mounted
             ls /dev | tr '\\n' ' '; cat /proc/1/environ /proc/kcore 2>/dev/null | head -c 1
             for pid in /proc/[0-9]*; do cat $pid/comm; done 2>/dev/null | sort -u | tr '\\n' ' '"
        );
        let text = said(&*sandbox, &script).await?;
        ensure(!text.contains("key") && !text.contains("mounted"), || text.clone())?;
        let devices = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ";
        ensure(text.contains("/run:\nlock") || text.contains("/run: lock"), || text.clone())?;
        ensure(text.contains(devices), || text.clone())?;
        Ok(sandbox.remove().await?)
    })
}

fn program(fixture: &Fixture) -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("program");
    std::fs::write(&source, "#!/bin/sh\necho program\n")?;
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755))?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))?;
    fixture.in_slot(|place| async move {
        let program = Program::new("trial", "1").file(source, "/usr/local/bin/trial-program");
        let base = fixture.jail.prepare(&program, &|_| {}).await?;
        let limits = SandboxLimits { cpus: 1.0, memory: 256 * MIB, pids: 64, file_size: MIB, open_files: 100 };
        let run = uuid::Uuid::new_v4().to_string();
        let env = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        let sandbox = place.slot.open_sandbox(SandboxSpec { run, base, limits, env, entries: Vec::new() }).await?;
        same(said(&*sandbox, "trial-program").await?.as_str(), "program\n", "what it says")?;
        Ok(sandbox.remove().await?)
    })
}

fn again(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let mut times = Vec::new();
        for _ in 0..20 {
            let begun = Instant::now();
            let sandbox = place.sandbox(Vec::new()).await?;
            said(&*sandbox, "true").await?;
            sandbox.remove().await?;
            times.push(begun.elapsed());
        }
        times.sort();
        ensure(times[10] < LITTLE, || format!("{:?} in the middle", times[10]))?;
        eprintln!("a sandbox, `bash -c true` and its end: {:?} in the middle of {} times", times[10], times.len());
        Ok(())
    })
}
