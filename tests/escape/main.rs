//! Real attempts to get out of a sandbox, by an agent that is a shell, on each backend.
//!
//! Most are probes in Python, which makes any system call by its number. The same source runs on this machine as a control: a probe
//! that does not get through there would prove nothing where it is refused. A control touches only what the test made, and takes
//! namespaces of its own before it changes anything.

#[path = "../both/mod.rs"]
mod both;

mod exhaustion;
mod files;
mod kernel;
mod network;
mod processes;
mod trees;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use redroom::Run;
use serde_json::{Value, json};

fn main() -> ExitCode {
    both::play(suite::play)
}

mod suite {
    redroom::main!(redroom::Suite::new().agent(redroom::Shell::new()).ignored_without_backend());

    pub(crate) fn play() -> std::process::ExitCode {
        main()
    }
}

fn on_docker() -> bool {
    std::env::var("REDROOM_BACKEND").as_deref() == Ok("docker")
}

/// What became of each probe: `done`, or how it failed.
#[derive(Debug, Default)]
struct Outcomes(BTreeMap<String, String>);

/// Some probes, in Python.
struct Probes {
    source: &'static str,
    arguments: Value,
}

/// Where a control runs.
#[derive(Clone, Copy)]
enum Control {
    /// As it is.
    Plain,
    /// In namespaces of its own: as the user that this is, and as root of a user namespace.
    Apart,
}

/// What of a control depends on the machine: its kernel's settings, and who runs the test. Every other probe has to get through.
const MACHINE: [&str; 42] = [
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "kexec_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "acct",
    "syslog",
    "fanotify_init",
    "quotactl",
    "iopl",
    "ioperm",
    "x32 mount",
    "x32 unshare",
    "i386 unshare",
    "i386 chroot",
    "i386 getpid",
    "mount proc",
    "open_tree",
    "open_by_handle_at",
    "setns pid",
    "setns cgroup",
    "setns time",
    "unshare time",
    "unshare user, time",
    "clone3 time",
    "AF_ALG",
    "AF_KEY",
    "bluetooth",
    "vsock",
    "receive buffer by force",
    "mknod mem",
    "mknod kmsg",
    "mknod a disk",
    "mknod a loop device",
    "mknod fuse",
    "inject into a terminal",
    "marked copy",
];

impl Probes {
    fn new(source: &'static str, arguments: Value) -> Self {
        Probes { source, arguments }
    }

    fn script(&self) -> String {
        format!("{}\n\n{}", include_str!("probes/common.py"), self.source)
    }

    fn arguments(&self, mode: &str, others: Value) -> String {
        let mut arguments = self.arguments.clone();
        let all = arguments.as_object_mut().unwrap();
        all.extend(others.as_object().unwrap().clone());
        all.insert("mode".to_owned(), mode.into());
        arguments.to_string()
    }

    /// Tries them in the sandbox.
    async fn inside(&self, run: &Run) -> redroom::Result<Outcomes> {
        let arguments = self.arguments("inside", json!({}));
        let turn = run.send(format!("python3 - '{arguments}' <<'END'\n{}\nEND", self.script())).await?;
        let outcomes = Outcomes::read(&turn.final_text);
        assert_eq!((turn.exit_code, turn.stderr.as_str()), (Some(0), ""), "{}", turn.final_text);
        outcomes.assert_sound();
        assert!(!outcomes.0.is_empty(), "no probe was tried");
        Ok(outcomes)
    }

    /// Tries them on this machine, with arguments of its own.
    fn outside(&self, control: Control, others: Value) -> Outcomes {
        let folder = tempfile::tempdir().unwrap();
        let modes: &[&str] = match control {
            Control::Plain => &["plain"],
            Control::Apart => &["own", "user"],
        };
        let mut outcomes = Outcomes::default();
        for mode in modes {
            let mut others = others.clone();
            if matches!(control, Control::Plain) {
                others["scratch"] = folder.path().to_str().into();
            }
            let arguments = self.arguments(mode, others);
            let (text, errors) = python(&self.script(), &arguments);
            assert_eq!(errors, "", "{text}");
            for (name, outcome) in Outcomes::read(&text).0 {
                let known = outcomes.0.entry(name).or_default();
                if known != "done" {
                    *known = outcome;
                }
            }
        }
        outcomes.assert_sound();
        outcomes
    }
}

impl Outcomes {
    fn read(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Outcomes(pairs.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect())
    }

    /// No probe failed by a mistake of its own.
    fn assert_sound(&self) {
        let broken: Vec<_> = self.0.iter().filter(|(_, outcome)| outcome.starts_with("broken")).collect();
        assert!(broken.is_empty(), "{broken:?}");
    }

    /// No probe got through but those that may, each of which has to.
    fn assert_refused(&self, may: &[&str]) {
        let through: Vec<&str> = self.through().collect();
        let mut expected = may.to_vec();
        expected.sort_unstable();
        assert_eq!(through, expected, "these got through, or not; of all: {:#?}", self.0);
    }

    /// Each probe gets through on a machine that refuses nothing, but for what depends on the machine.
    fn assert_control(&self) {
        if let Some(why) = self.0.get("no namespaces") {
            eprintln!("some controls cannot run on this machine: {why}");
        }
        let lost = |(name, outcome): &(&String, &String)| *outcome != "done" && name.as_str() != "no namespaces";
        let (machine, lost): (Vec<_>, Vec<_>) =
            self.0.iter().filter(lost).partition(|(name, _)| MACHINE.contains(&name.as_str()));
        if !machine.is_empty() {
            eprintln!("no control on this machine: {machine:?}");
        }
        assert!(lost.is_empty(), "these prove nothing, for they fail on the machine, too: {lost:?}");
        assert!(self.through().next().is_some() || self.0.contains_key("no namespaces"), "nothing was tried");
    }

    fn through(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, outcome)| *outcome == "done").map(|(name, _)| name.as_str())
    }
}

/// Tries probes in the sandbox and on this machine: nothing gets through there but what may, everything here.
async fn refused(run: Run, probes: Probes, may: &[&str], control: Control) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let inside = probes.inside(&run).await?;
    run.finish().await?;
    probes.outside(control, json!({})).assert_control();
    inside.assert_refused(may);
    Ok(())
}

/// Runs a program in Python on this machine: what it printed, and its errors.
fn python(script: &str, arguments: &str) -> (String, String) {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-", arguments])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox has the python of this machine, or this machine is to have one");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// Whether there is no Python in the sandbox: a jail has the programs of this machine. Says so. On docker, the control needs one here.
async fn lacks(run: &Run) -> redroom::Result<bool> {
    let there = run.exec("python3 -c 'import ctypes'").await?.exit_code == 0;
    let here = std::path::Path::new("/usr/bin/python3").exists();
    assert!(there || !on_docker(), "the image has it: python3");
    if !there || !here {
        eprintln!("{}: not tried here, for this machine has no /usr/bin/python3 with ctypes", run.name());
        // A run without a turn is an error.
        run.send("true").await?;
    }
    Ok(!there || !here)
}

/// What a command of the test's printed in the sandbox.
async fn printed(run: &Run, command: &str) -> redroom::Result<String> {
    let output = run.exec(command).await?;
    Ok(String::from_utf8_lossy(&output.stdout.0).into_owned())
}
