//! What one sandbox may use up: processes, memory, files, time.

use std::process::{Command, Stdio};
use std::time::Duration;

use redroom::By;
use redroom::prelude::*;

use crate::{lacks, on_docker, python};

/// Starts processes until it is refused, or there are 200; prints how many. Zombies, if they end at once.
const PROCESSES: &str = r#"
import os, signal, sys, time
pids = []
for _ in range(200):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        if sys.argv[1] == "zombies": os._exit(0)
        time.sleep(30); os._exit(0)
    pids.append(pid)
print(len(pids), flush=True)
for pid in pids: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
"#;

#[redroom::attack(limits = { pids: 60 })]
async fn processes_and_zombies_are_bounded_and_the_sandbox_still_serves(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    for kind in ["sleepers", "zombies"] {
        let turn = run.send(format!("python3 - {kind} <<'END'{PROCESSES}END")).await?;
        let count: u32 = turn.final_text.trim().parse().unwrap();
        assert!((10..=60).contains(&count), "{kind}: {count}");
        assert_eq!(run.send("echo alive").await?.final_text, "alive\n");
        assert_eq!(python(PROCESSES, kind).0, "200\n", "the control");
    }
    assert_eq!(run.finish().await?.errors, []);
    Ok(())
}

#[redroom::attack(limits = { memory: "128m", file_size: "16m" })]
async fn memory_and_files_are_bounded(run: Run) -> redroom::Result<()> {
    const MEMORY: &str = "x = bytearray(1200 << 20)\nprint('done')";
    const FILE: &str = "import signal, sys, os, tempfile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with tempfile.TemporaryFile(dir=sys.argv[1]) as f:
    for _ in range(20): os.write(f.fileno(), bytes(1 << 20))
print('done')";
    if lacks(&run).await? {
        return Ok(());
    }
    let turn = run.send(format!("python3 - 2>/dev/null <<'END'\n{MEMORY}\nEND\ntrue")).await?;
    assert_eq!(turn.final_text, "", "memory");
    for folder in ["/workspace", "/tmp", "/dev/shm"] {
        let turn = run.send(format!("python3 - {folder} 2>/dev/null <<'END'\n{FILE}\nEND\ntrue")).await?;
        assert_eq!(turn.final_text, "", "a file in {folder}");
    }
    let shared = "for n in 1 2 3 4 5 6 7 8; do head -c 15m /dev/zero >/dev/shm/$n || break; done 2>/dev/null; echo $n; rm /dev/shm/*";
    let shared = run.send(shared).await?.final_text;
    assert!(["4\n", "5\n"].contains(&shared.as_str()), "shared memory: {shared}");
    if !on_docker() {
        // Containers have the engine's disk.
        let many = "for n in $(seq 20); do head -c 15m /dev/zero >/tmp/$n || break; done 2>/dev/null; echo $n; rm /tmp/*
            cd /tmp; for n in $(seq 200); do touch $(seq $((n * 100)) $((n * 100 + 99))) 2>/dev/null || break; done; test $n -lt 200 && echo bounded; ls | xargs rm";
        assert_eq!(run.send(many).await?.final_text, "7\nbounded\n");
    }
    assert_eq!(run.send("echo alive").await?.final_text, "alive\n");
    run.finish().await?;
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(python(MEMORY, "").0, "done\n", "the control");
    assert_eq!(python(FILE, folder.path().to_str().unwrap()).0, "done\n", "the control");
    Ok(())
}

/// Processes that ignore every signal that can be ignored, each of a session of its own.
const STUBBORN: &str = "trap '' TERM HUP INT QUIT PIPE
    for n in 1 2 3; do setsid bash -c \"trap '' TERM HUP INT QUIT; (while true; do sleep 0.1; done) & while true; do sleep 0.1; done\" redroom-stubborn & done";

#[redroom::attack(limits = { turn_timeout: Duration::from_secs(6) })]
async fn a_turn_that_is_out_of_time_ends_with_all_that_it_started(run: Run) -> redroom::Result<()> {
    let error = run.send(format!("{STUBBORN}; while true; do sleep 1; done")).await.unwrap_err();
    assert_eq!((error.code(), error.by()), ("turn_timeout", By::Agent), "{error}");
    assert_eq!(run.send("pgrep -c -f '[r]edroom-stubborn'; pgrep -c sleep; true").await?.final_text, "0\n0\n");
    run.finish().await?;
    // The control: such a one outlives what it can ignore.
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' TERM; echo ready; read x"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let alive = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    assert!(alive, "the control");
    Ok(())
}

#[redroom::attack]
async fn arguments_past_every_bound_are_an_error_of_the_command_alone(run: Run) -> redroom::Result<()> {
    let turn = run.send("x=$(head -c 3000000 /dev/zero | tr '\\0' x); /bin/true $x 2>/dev/null; echo $?").await?;
    assert_eq!(turn.final_text, "126\n");
    let long = "x".repeat(3_000_000);
    let refused = run.exec(format!("true {long}")).await;
    assert!(refused.is_err() || refused.is_ok_and(|output| output.exit_code != 0), "it was executed");
    assert_eq!(run.send("echo alive").await?.final_text, "alive\n");
    run.finish().await?;
    Ok(())
}
