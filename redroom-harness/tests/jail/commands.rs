//! Commands, and how they end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use redroom_harness::backend::{Ended, Exec, Fate, Sink, Stream};

use crate::Body;
use crate::fixture::{Fixture, Heard, ensure, eventually, mark, processes_with, ran, said, same, shell};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("exit_codes_are_those_of_the_command", exit_codes),
    ("what_cannot_be_started_is_told_in_the_backends_words", not_started),
    ("input_and_output_arrive_whole", streams),
    ("what_was_said_before_the_end_is_heard_after_it", last_words),
    ("large_arguments_and_environments_arrive_whole", large),
    ("a_command_past_its_time_is_killed_with_all_its_kin", timeout),
    ("a_command_that_prints_too_much_is_ended", output_limit),
    ("a_dropped_command_is_killed_before_the_next_one_starts", dropped),
    ("a_server_that_a_command_left_behind_lives_on", left_behind),
    ("nothing_of_the_harness_is_inherited", inherited),
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
        same(sandbox.fate().await?, Fate::Alive { memory_exceeded: false }, "its fate")?;
        Ok(sandbox.remove().await?)
    })
}

fn not_started(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for (program, code) in [("/nowhere/program", 127), ("nowhere", 127), ("/etc/passwd", 126), ("/usr", 126)] {
            let (end, heard) = ran(&*sandbox, Exec { argv: vec![program.to_owned()], ..shell("") }).await?;
            same((end.exit_code, end.ended), (Some(code), Ended::Itself), program)?;
            let words = String::from_utf8_lossy(&heard.engine).into_owned();
            ensure(heard.out.is_empty() && heard.err.is_empty() && words.contains(program), || words.clone())?;
        }
        let (end, _) = ran(&*sandbox, Exec { cwd: "/nowhere".to_owned(), ..shell("true") }).await?;
        same(end.exit_code, Some(126), "a folder that is not there")?;
        Ok(sandbox.remove().await?)
    })
}

fn streams(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let sent: Vec<u8> = (0..300_000_u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
        let (_, heard) = ran(&*sandbox, Exec { stdin: sent.clone().into(), ..shell("cat; echo -n end") }).await?;
        ensure(heard.out == [&sent[..], b"end"].concat(), || "what came back is not what was sent".to_owned())?;
        let (end, _) = ran(&*sandbox, Exec { stdin: sent.into(), ..shell("exit 3") }).await?;
        same(end.exit_code, Some(3), "a command that does not read")?;
        let (end, heard) = ran(&*sandbox, shell("head -c 20000000 /dev/zero; echo warning >&2; exit 4")).await?;
        let found = (end.exit_code, heard.out.len(), heard.err.as_slice());
        same(found, (Some(4), 20_000_000, &b"warning\n"[..]), "both streams")?;
        Ok(sandbox.remove().await?)
    })
}

/// Whoever listens is at the first of two streams until the command has ended: what waits in the other is heard all the same.
fn last_words(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for _ in 0..5 {
            let mark = mark();
            let argv = ["bash", "-c", "echo out; echo err >&2", "bash", &mark].map(str::to_owned).into();
            let mut slow = Slow { heard: Heard::default(), mark };
            let end = sandbox.exec(Exec { argv, ..shell("") }, &mut slow).await?;
            same((end.exit_code, end.ended), (Some(0), Ended::Itself), "its end")?;
            let heard = (slow.heard.out.as_slice(), slow.heard.err.as_slice());
            same(heard, (&b"out\n"[..], &b"err\n"[..]), "what was heard")?;
        }
        Ok(sandbox.remove().await?)
    })
}

/// Hears, and waits until the command is gone before it goes on.
struct Slow {
    heard: Heard,
    mark: String,
}

impl Sink for Slow {
    fn write(&mut self, stream: Stream, chunk: &[u8]) -> ControlFlow<()> {
        let gone = || processes_with(&self.mark) == 0;
        eventually(Duration::from_secs(10), "its end", gone).expect("it has nothing more to say");
        self.heard.write(stream, chunk)
    }
}

fn large(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let (argument, value) = ("a".repeat(100_000), "v".repeat(100_000));
        let exec = Exec {
            argv: vec!["bash".into(), "-c".into(), "echo ${#1} ${#X}; pwd".into(), "bash".into(), argument],
            env: vec![("X".to_owned(), value)],
            cwd: "/tmp".to_owned(),
            ..shell("")
        };
        let (_, heard) = ran(&*sandbox, exec).await?;
        same(heard.out.as_slice(), &b"100000 100000\n/tmp\n"[..], "what arrived")?;
        Ok(sandbox.remove().await?)
    })
}

fn timeout(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let script = "trap '' TERM INT HUP; setsid sleep 1000 & (trap '' TERM; nohup sleep 1001 &) ; echo begun
                      while :; do sleep 1; done";
        let (end, heard) = ran(&*sandbox, Exec { timeout: Duration::from_secs(1), ..shell(script) }).await?;
        same((end.exit_code, end.ended), (Some(137), Ended::Timeout), "its end")?;
        ensure(end.duration < Duration::from_secs(5), || format!("it lasted {:?}", end.duration))?;
        same(heard.out.as_slice(), &b"begun\n"[..], "what it printed before")?;
        same(said(&*sandbox, "pgrep -x sleep | wc -l").await?.as_str(), "0\n", "what is left of it")?;
        Ok(sandbox.remove().await?)
    })
}

fn output_limit(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let mut heard = Heard { most: 1_000_000, ..Heard::default() };
        let end = sandbox.exec(shell("yes"), &mut heard).await?;
        same((end.exit_code, end.ended), (Some(137), Ended::OutputLimit), "its end")?;
        ensure(heard.out.len() < 2_000_000, || format!("{} bytes were passed on", heard.out.len()))?;
        Ok(sandbox.remove().await?)
    })
}

fn dropped(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for patience in [0, 1, 5, 30, 100] {
            let mut heard = Heard::default();
            let running = sandbox.exec(shell("sleep 1000"), &mut heard);
            let cut = tokio::time::timeout(Duration::from_millis(patience), running).await;
            same(cut.is_err(), true, "it was cut")?;
            same(said(&*sandbox, "pgrep -x sleep | wc -l").await?.as_str(), "0\n", "what is left of it")?;
        }
        Ok(sandbox.remove().await?)
    })
}

fn left_behind(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let begun = Instant::now();
        let (end, heard) = ran(&*sandbox, shell("sleep 1000 & echo up")).await?;
        same((end.exit_code, end.ended), (Some(0), Ended::Itself), "its end")?;
        same(heard.out.as_slice(), &b"up\n"[..], "its output")?;
        ensure(begun.elapsed() < Duration::from_secs(30), || format!("it took {:?}", begun.elapsed()))?;
        same(said(&*sandbox, "pkill -x sleep && echo killed").await?.as_str(), "killed\n", "the next command")?;
        Ok(sandbox.remove().await?)
    })
}

fn inherited(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        // Without a shell, which sees to some signals by itself, and has variables of its own.
        let plain = |argv: &[&str]| Exec { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..shell("") };
        let (_, heard) = ran(&*sandbox, plain(&["ls", "/proc/self/fd"])).await?;
        // It opens one more for the folder.
        same(String::from_utf8_lossy(&heard.out).as_ref(), "0\n1\n2\n3\n", "descriptors")?;
        let (_, heard) = ran(&*sandbox, plain(&["env"])).await?;
        let text = String::from_utf8_lossy(&heard.out).into_owned();
        let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        same(names, vec!["GIT_CONFIG_SYSTEM", "HOME", "HOSTNAME", "PATH"], "variables")?;
        let (_, heard) = ran(&*sandbox, plain(&["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])).await?;
        let text = String::from_utf8_lossy(&heard.out).into_owned();
        let sets = text.lines().filter_map(|line| u64::from_str_radix(line.split_once(":\t")?.1, 16).ok());
        // The C library keeps 32 and 33 for itself, and ignores them in whatever it starts.
        same(
            sets.map(|set| set & !(3 << 31)).collect::<Vec<_>>(),
            vec![0, 0],
            "signals that are blocked, and ignored",
        )?;
        Ok(sandbox.remove().await?)
    })
}

fn dead(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let exec = shell("echo evidence > evidence; sleep 1000");
        let (end, frozen) = tokio::join!(ran(&*sandbox, exec), async {
            while sandbox.read_file("/workspace/evidence", 100).await?.is_none_or(|content| content.is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sandbox.freeze().await
        });
        frozen?;
        let (end, _) = end?;
        same((end.exit_code, end.ended), (None, Ended::SandboxDied), "a command under which the sandbox died")?;
        let (end, _) = ran(&*sandbox, shell("true")).await?;
        same((end.exit_code, end.ended), (None, Ended::SandboxDied), "a command after that")?;
        let fate = sandbox.fate().await?;
        ensure(matches!(fate, Fate::Dead { exit_code: Some(137), memory_exceeded: false, .. }), || {
            format!("{fate:?}")
        })?;
        Ok(sandbox.remove().await?)
    })
}
