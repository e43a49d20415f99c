//! jailcheck, from outside, over a sandbox that is at work. It looks into those that firejail made, and finds no other by itself:
//! what it would ask of one is asked here, of the agent's process as this machine sees it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::Trial;
use redroom::{Redroom, Result, RunOptions};

use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("outside::jailcheck_knows_no_sandbox_but_firejails", &["jailcheck"], jailcheck),
        trial("outside::what_jailcheck_asks_is_answered_well", &[], questions),
    ]
}

/// How long the agent's process sleeps, by which it is known.
const ASLEEP: &str = "54321.75";
/// Leaves it in the background.
const LEAVE: &str = "(setsid sleep 54321.75 </dev/null >/dev/null 2>&1 &); until pgrep -f '^sleep 54321.7[5]$' >/dev/null; do sleep 0.05; done";

async fn jailcheck(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("jailcheck")).await?;
    run.send(LEAVE).await?;
    if rustix::process::geteuid().is_root() {
        // It is for root, and wants to know for whom he works.
        let said = Command::new("jailcheck").arg("--debug").env("SUDO_USER", "nobody").output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.contains("cleaning up!"), "it did not come to its end: {said}");
        assert!(!said.contains("Virtual dirs") && !said.contains("Networking"), "it knows this one: {said}");
    } else {
        let refused = Command::new("jailcheck").output().unwrap();
        assert!(!refused.status.success(), "{refused:?}");
    }
    run.finish().await?;
    Ok(())
}

/// The agent's process, as this machine numbers it.
fn asleep() -> Option<PathBuf> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let is_it = |process: &PathBuf| {
        std::fs::read(process.join("cmdline")).is_ok_and(|line| line == format!("sleep\0{ASLEEP}\0").as_bytes())
    };
    processes
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok()))
        .find(is_it)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

async fn questions(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("questions")).await?;
    run.send(LEAVE).await?;
    let process = asleep().expect("an agent's process is one of this machine's");
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let of = |what: &str| status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default().trim();
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), ("1", "2"), "{status}");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(of(set), "0000000000000000", "{set}");
    }
    let devices = std::fs::read_to_string(process.join("net/dev")).unwrap();
    let devices: Vec<&str> = devices.lines().skip(2).filter_map(|line| Some(line.split(':').next()?.trim())).collect();
    assert_eq!(devices, ["lo"]);
    // An engine shares that of control groups where there is their first version.
    for namespace in ["ipc", "mnt", "net", "pid", "uts"] {
        let of = |process: &Path| std::fs::read_link(process.join("ns").join(namespace)).unwrap();
        assert_ne!(of(&process), of(Path::new("/proc/self")), "{namespace}");
    }
    // Its files: only it has a home there, and nothing that runs on this machine can be talked to.
    let root = process.join("root");
    assert_eq!(names(&root.join("home")), ["agent"]);
    for (folder, what) in
        [("run", "docker.sock"), ("run", "containerd"), ("run", "user"), ("root", ".ssh"), ("home/agent", ".ssh")]
    {
        assert!(!root.join(folder).join(what).exists(), "{folder}/{what}");
    }
    run.finish().await?;
    assert_eq!(asleep(), None, "it outlived its run");
    Ok(())
}
