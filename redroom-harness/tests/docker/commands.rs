//! Commands, and how they end.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::{Ended, Exec, Fate};

use crate::Body;
use crate::fixture::{Collected, Fixture, Heard, MIB, ensure, eventually, file, ran, said, same, shell};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("exit_codes_are_those_of_the_command", exit_codes),
    ("standard_input_arrives_whole_and_ends", input),
    ("output_of_both_streams_is_kept_apart_and_complete", output),
    ("a_command_past_its_time_is_killed_with_all_its_kin", timeout),
    ("a_fork_bomb_is_bounded_and_ends_with_its_time", fork_bomb),
    ("a_command_that_prints_too_much_is_ended", output_limit),
    ("a_command_that_fills_the_disk_is_ended_and_its_files_stay", storage_limit),
    ("a_dropped_command_is_killed_before_the_next_one_starts", dropped),
    ("a_server_that_a_command_left_behind_does_not_hold_it_up_and_lives_on", left_behind),
    ("a_child_that_fills_the_memory_dies_and_the_sandbox_lives", memory),
    ("memory_that_no_process_holds_cannot_take_the_evidence_away", hidden_memory),
    ("the_agent_can_neither_end_nor_read_process_one", process_one),
    ("a_command_in_a_dead_sandbox_says_so", dead),
];

fn exit_codes(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for (script, code) in
            [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
        {
            let (end, _) = ran(&*sandbox, shell(script)).await?;
            same((end.exit_code, end.ended), (Some(code), Ended::Itself), script)?;
        }
        for (program, code) in [("/nowhere/program", 127), ("/etc/passwd", 126)] {
            let exec = Exec { argv: vec![program.to_owned()], ..shell("") };
            let (end, heard) = ran(&*sandbox, exec).await?;
            same((end.exit_code, end.ended), (Some(code), Ended::Itself), program)?;
            same(
                (heard.out.is_empty(), heard.engine.is_empty()),
                (true, false),
                format!("whose words {program} gets"),
            )?;
        }
        sandbox.remove().await?;
        Ok(())
    })
}

fn input(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let sent: Vec<u8> = (0..300_000_u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
        let (end, heard) = ran(&*sandbox, Exec { stdin: sent.clone().into(), ..shell("cat; echo -n end") }).await?;
        same(end.exit_code, Some(0), "exit code")?;
        same(heard.out == [&sent[..], b"end"].concat(), true, "what came back is what was sent")?;
        let begun = Instant::now();
        let (end, _) = ran(&*sandbox, Exec { stdin: sent.into(), ..shell("exit 3") }).await?;
        same(end.exit_code, Some(3), "a command that does not read")?;
        let (end, heard) = ran(&*sandbox, shell("cat >/dev/null; echo ended")).await?;
        same((end.exit_code, &heard.out[..]), (Some(0), &b"ended\n"[..]), "no input is an end")?;
        ensure(begun.elapsed() < Duration::from_secs(30), || format!("it took {:?}", begun.elapsed()))?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn output(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let (end, heard) = ran(&*sandbox, shell("head -c 20000000 /dev/zero; echo warning >&2; exit 4")).await?;
        same(
            (end.exit_code, heard.out.len(), &heard.err[..]),
            (Some(4), 20_000_000, &b"warning\n"[..]),
            "what was heard",
        )?;
        let (_, heard) = ran(
            &*sandbox,
            Exec { env: vec![("X".to_owned(), "y z".to_owned())], cwd: "/tmp".to_owned(), ..shell("echo $X; pwd") },
        )
        .await?;
        same(&heard.out[..], &b"y z\n/tmp\n"[..], "environment and folder")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn timeout(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let script = "trap '' TERM INT HUP; setsid sleep 1000 & (trap '' TERM; nohup sleep 1001 &) ; echo begun; while :; do sleep 1; done";
        let (end, heard) = ran(&*sandbox, Exec { timeout: Duration::from_secs(1), ..shell(script) }).await?;
        same((end.exit_code, end.ended), (Some(137), Ended::Timeout), "its end")?;
        ensure(end.duration < Duration::from_secs(5), || format!("it lasted {:?}", end.duration))?;
        same(&heard.out[..], &b"begun\n"[..], "what it printed before")?;
        same(said(&*sandbox, "pgrep -u 1000 sleep | wc -l").await?.as_str(), "0\n", "what is left of it")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn fork_bomb(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.limited(Vec::new(), |limits| limits.pids = 64).await?;
        let script = "b() { b | b & }; b; while :; do b; done";
        let (end, _) = ran(&*sandbox, Exec { timeout: Duration::from_secs(2), ..shell(script) }).await?;
        ensure(matches!(end.ended, Ended::Timeout | Ended::Itself), || format!("{end:?}"))?;
        if sandbox.fate().await? == (Fate::Alive { memory_exceeded: false }) && end.ended == Ended::Timeout {
            let left = said(&*sandbox, "pgrep -u 1000 | wc -l").await?;
            ensure(left.trim().parse::<u32>().is_ok_and(|left| left < 5), || {
                format!("{} are left of it", left.trim())
            })?;
        }
        sandbox.remove().await?;
        Ok(())
    })
}

fn output_limit(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let mut heard = Heard { most: 1_000_000, ..Heard::default() };
        let end = sandbox.exec(shell("yes"), &mut heard).await?;
        same((end.exit_code, end.ended), (Some(137), Ended::OutputLimit), "its end")?;
        ensure(heard.out.len() < 2_000_000, || format!("{} bytes were passed on", heard.out.len()))?;
        same(said(&*sandbox, "pgrep -x yes | wc -l").await?.as_str(), "0\n", "what is left of it")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn storage_limit(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox =
            place.limited(vec![file("/workspace/planted", 0o644, "x")], |limits| limits.file_size = 4096 * MIB).await?;
        let full = "for i in 1 2 3 4 5; do fallocate -l 1G big$i || exit 9; done; echo all of it; sleep 600";
        let (end, heard) = ran(&*sandbox, shell(full)).await?;
        same((end.exit_code, end.ended), (None, Ended::StorageLimit), "its end")?;
        same(heard.out, b"all of it\n".to_vec(), "what it printed before")?;
        match sandbox.fate().await? {
            Fate::Dead { memory_exceeded: false, detail, .. } if detail.contains("disk") => {}
            fate => return Err(format!("{fate:?}").into()),
        }
        let (end, _) = ran(&*sandbox, shell("true")).await?;
        same(end.ended, Ended::StorageLimit, "another command's end")?;
        sandbox.freeze().await?;
        same(
            Collected::of(&*sandbox, &["/workspace/planted"]).await?.text("/workspace/planted")?,
            "x".to_owned(),
            "a file",
        )?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn dropped(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for patience in [1, 30, 80, 150, 400] {
            let mut heard = Heard::default();
            let running = sandbox.exec(shell("sleep 1000"), &mut heard);
            let cut = tokio::time::timeout(Duration::from_millis(patience), running).await;
            same(cut.is_err(), true, "it was cut")?;
            // Process one may not have buried it yet.
            let left = "ps -C sleep -o stat= | grep -vc Z; true";
            same(said(&*sandbox, left).await?.as_str(), "0\n", "what is left of it")?;
        }
        sandbox.remove().await?;
        Ok(())
    })
}

fn left_behind(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let begun = Instant::now();
        let script = "python3 -u -m http.server 3456 & until curl -so /dev/null http://127.0.0.1:3456/; do sleep 0.05; done; echo up";
        let (end, heard) = ran(&*sandbox, shell(script)).await?;
        same((end.exit_code, end.ended), (Some(0), Ended::Itself), "its end")?;
        ensure(begun.elapsed() < Duration::from_secs(30), || format!("it took {:?}", begun.elapsed()))?;
        ensure(String::from_utf8_lossy(&heard.out).contains("up\n"), || "its output was lost".to_owned())?;
        said(&*sandbox, "curl -fsS http://127.0.0.1:3456/").await?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn memory(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.limited(Vec::new(), |limits| limits.memory = 128 * MIB).await?;
        let script = "python3 -c 'b = bytearray(1 << 30)'; echo $? > after";
        let (end, _) = ran(&*sandbox, shell(script)).await?;
        same((end.exit_code, end.ended), (Some(0), Ended::Itself), "the shell goes on")?;
        same(said(&*sandbox, "cat after").await?.as_str(), "137\n", "the child's end")?;
        eventually(Duration::from_secs(5), "the engine knows of it", || async {
            matches!(sandbox.fate().await, Ok(Fate::Alive { memory_exceeded: true }))
        })
        .await?;
        sandbox.remove().await?;

        let other = place.sandbox(Vec::new()).await?;
        ran(&*other, shell("kill -9 $$")).await?;
        same(other.fate().await?, Fate::Alive { memory_exceeded: false }, "a plain kill")?;
        other.remove().await?;
        Ok(())
    })
}

fn hidden_memory(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.limited(Vec::new(), |limits| limits.memory = 128 * MIB).await?;
        let script = "echo evidence > evidence; python3 -c '
import os
held = []
while True:
    fd = os.memfd_create(\"m\")
    held.append(fd)
    for _ in range(64):
        os.write(fd, bytes(1 << 20))
'";
        let (end, _) = ran(&*sandbox, Exec { timeout: Duration::from_secs(30), ..shell(script) }).await?;
        ensure(end.ended != Ended::Timeout, || format!("{end:?}"))?;
        match sandbox.fate().await? {
            Fate::Alive { .. } => {}
            Fate::Dead { memory_exceeded, .. } => same(memory_exceeded, true, "why it died")?,
        }
        sandbox.freeze().await?;
        let collected = Collected::of(&*sandbox, &["/workspace"]).await?;
        same(collected.text("/workspace/evidence")?.as_str(), "evidence\n", "the evidence")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn process_one(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let tried = said(
            &*sandbox,
            "kill -9 1 2>/dev/null || echo no; cat /proc/1/environ 2>/dev/null || echo no; ls /proc/1/fd 2>/dev/null || echo no; \
             echo x 2>/dev/null >>/.redroom-waiter || echo no; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; \
             for i in 1 2 3; do (setsid sleep 0.05 &); done; sleep 0.4; ps -eo stat= | grep -c Z",
        )
        .await;
        // grep -c finds nothing: its exit code says so.
        let text = tried.err().map(|failed| failed.message().unwrap_or_default().to_owned()).unwrap_or_default();
        let expected = "no\nno\nno\nno\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n0\n";
        ensure(text.contains(expected), || text.clone())?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn dead(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let engine = bollard::Docker::connect_with_defaults()?;
        let (end, killed) = tokio::join!(ran(&*sandbox, shell("echo begun > begun; sleep 1000")), async {
            let begun =
                async || matches!(sandbox.read_file("/workspace/begun", 100).await, Ok(Some(text)) if !text.is_empty());
            eventually(Duration::from_secs(60), "the command has begun", begun).await?;
            let mine = crate::fixture::agent_of(&place).await;
            engine.kill_container(&mine, None::<bollard::query_parameters::KillContainerOptions>).await?;
            Ok::<_, Failed>(())
        });
        killed?;
        let (end, _) = end?;
        same((end.exit_code, end.ended), (None, Ended::SandboxDied), "a command under which the sandbox died")?;
        let (end, _) = ran(&*sandbox, shell("true")).await?;
        same((end.exit_code, end.ended), (None, Ended::SandboxDied), "a command after that")?;
        let fate = sandbox.fate().await?;
        ensure(matches!(fate, Fate::Dead { exit_code: Some(137), memory_exceeded: false, .. }), || {
            format!("{fate:?}")
        })?;
        sandbox.freeze().await?;
        Collected::of(&*sandbox, &["/workspace"]).await?.get("/workspace")?;
        sandbox.remove().await?;
        Ok(())
    })
}
