//! Other processes: the sandbox's first one, those of the machine, the sidecar; what a command inherits.

use std::process::{Child, Command, Stdio};

use redroom::prelude::*;
use serde_json::json;

use crate::{Control, Probes, lacks, on_docker, printed};

/// A process of this machine, to be gone at.
struct Prey(Child);

impl Prey {
    fn start() -> std::io::Result<Self> {
        Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().map(Prey)
    }
}

impl Drop for Prey {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[redroom::attack]
async fn no_process_but_the_agents_own_is_seen_into_or_touched(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let prey = Prey::start().unwrap();
    let (here, there) = (prey.0.id(), std::process::id());
    let probes = Probes::new(include_str!("probes/processes.py"), json!({ "pid": 1, "outside": [here, there] }));
    let inside = probes.inside(&run).await?;
    // It still is as it was, and starts commands.
    assert_eq!(printed(&run, "ulimit -n; echo alive").await?, "16384\nalive\n");
    run.finish().await?;
    let outside = probes.outside(Control::Plain, json!({ "pid": here, "outside": [here] }));
    outside.assert_control();
    // Docker's profile lets a process trace its own children, on kernels where that is safe. A terminal made by oneself is one's own.
    let may: &[&str] = if on_docker() {
        &["inject into a terminal", "process_vm_readv own child", "process_vm_writev own child", "ptrace own child"]
    } else {
        &[]
    };
    inside.assert_refused(may);
    Ok(())
}

#[redroom::attack]
async fn a_command_inherits_three_pipes_and_no_terminal(run: Run) -> redroom::Result<()> {
    const LOOK: &str = "for fd in {0..1023}; do test -e /proc/$$/fd/$fd && echo $fd; done
        readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 >/tmp/links; cut -d: -f1 /tmp/links
        { true </dev/tty; } 2>/dev/null && echo a terminal
        for fd in 0 1 2; do test -t $fd && echo terminal $fd; done; true";
    let turn = run.send(LOOK).await?;
    let process = printed(&run, "ls /proc/self/fd").await?;
    run.finish().await?;
    assert_eq!(turn.final_text, "0\n1\n2\npipe\n/tmp/links\npipe\n", "{}", turn.stderr);
    assert_eq!(process, "0\n1\n2\n3\n", "one is the listing's own");
    // The control: with one more.
    let look = format!("exec 9</dev/null\n{}", LOOK.replace("/tmp/links", "/dev/null"));
    let seen = Command::new("bash").args(["-c", &look]).stdin(Stdio::null()).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.starts_with("0\n1\n2\n9\n"), "{seen}");
    Ok(())
}

/// What the kernel says of each: the first process, which no program has replaced, so that it lost nothing by that; a command of the
/// agent and what it started; one of the test.
#[redroom::attack]
async fn no_process_has_a_right_or_can_gain_one(run: Run) -> redroom::Result<()> {
    const LOOK: &str = "for process in 1 $$ self; do grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/$process/status; done";
    let turn = run.send(LOOK).await?;
    let command = printed(&run, LOOK).await?;
    run.finish().await?;
    let none = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:\t0000000000000000\n")).concat();
    let expected = format!("{none}NoNewPrivs:\t1\nSeccomp:\t2\n").repeat(3);
    assert_eq!(turn.final_text, expected, "{}", turn.stderr);
    assert_eq!(command, expected);
    Ok(())
}
