use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process_group};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::processes::tests::Fake;
use super::*;

const MIB: u64 = 1 << 20;

fn memory(most: u64) -> Bounds {
    Bounds { memory: Some(most), threads: None }
}

#[test]
fn what_is_too_much_is_told() {
    let fake = Fake::of(&[(10, 1, 1, 10), (11, 10, 3, 20), (12, 1, 100, 1000)]);
    let at = |bounds, files| look(&fake, 10, 100, bounds, move || files);
    assert_eq!(at(memory(30), 0), Look::Fine);
    assert_eq!(at(memory(29), 0), Look::Exceeded(Exceeded::Memory { used: 30, most: 29 }));
    assert_eq!(at(memory(35), 6), Look::Exceeded(Exceeded::Memory { used: 36, most: 35 }), "files count");
    let threads = |most| Bounds { memory: None, threads: Some(most) };
    assert_eq!(at(threads(4), u64::MAX), Look::Fine);
    assert_eq!(at(threads(3), 0), Look::Exceeded(Exceeded::Threads { counted: 4, most: 3 }));
    assert_eq!(look(&fake, 99, 100, memory(0), || 0), Look::Ended);
}

#[test]
fn what_processes_share_is_not_held_against_them_twice() {
    let mut fake = Fake::of(&[(10, 1, 1, 100), (11, 10, 1, 100)]);
    fake.proportional.extend([(10, 50), (11, 50)]);
    assert_eq!(look(&fake, 10, 100, memory(150), || 0), Look::Fine);
    assert_eq!(look(&fake, 10, 100, memory(99), || 0), Look::Exceeded(Exceeded::Memory { used: 100, most: 99 }));
}

#[test]
fn a_file_system_counts_once_and_only_if_it_is_memory() {
    let Ok(place) = tempfile::tempdir_in("/dev/shm") else { return };
    let open = || OwnedFd::from(std::fs::File::open(place.path()).unwrap());
    let before = in_memory(&[open()]);
    std::fs::write(place.path().join("x"), vec![1; 8 * MIB as usize]).unwrap();
    let after = in_memory(&[open()]);
    assert!(after >= before + 4 * MIB, "{before} {after}");
    assert!(in_memory(&[open(), open()]) < after * 2);
    assert_eq!(in_memory(&[std::fs::File::open("/proc").unwrap().into()]), 0);
}

/// A process with others below it, all ended with the test.
struct Shell(Child);

impl Shell {
    fn new(script: &str) -> Self {
        let mut child = Command::new("sh");
        child.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        Shell(child.spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.0.wait();
    }
}

async fn told(shell: &Shell, bounds: Bounds) -> Option<Exceeded> {
    let (tell, told) = oneshot::channel();
    let _watchdog = Watchdog::start(shell.pid(), bounds, Vec::new(), |what| _ = tell.send(what));
    timeout(Duration::from_secs(20), told).await.expect("within twenty seconds").ok()
}

#[tokio::test]
async fn a_real_memory_eater_is_noticed() {
    // A grandchild that keeps a line that does not end.
    let shell = Shell::new("(head -c 100000000 /dev/zero; exec sleep 60) | tail");
    let Some(Exceeded::Memory { used, most }) = told(&shell, memory(64 * MIB)).await else { panic!("it ended") };
    assert_eq!(most, 64 * MIB);
    assert!(used > 64 * MIB && used < 1000 * MIB, "{used}");
}

#[tokio::test]
async fn real_processes_are_counted() {
    let shell = Shell::new("for n in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; (sleep 60 & sleep 60) & wait");
    let bounds = Bounds { memory: Some(1 << 40), threads: Some(8) };
    assert_eq!(told(&shell, bounds).await, Some(Exceeded::Threads { counted: 9, most: 8 }));
}

#[tokio::test]
async fn the_watch_ends_with_the_sandbox_and_says_nothing() {
    let mut shell = Shell::new("echo there; read line");
    shell.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    let (tell, told) = oneshot::channel();
    let watchdog = Watchdog::start(shell.pid(), memory(1 << 40), Vec::new(), |what| _ = tell.send(what));
    // It has to know whom it watches before they are gone.
    tokio::task::yield_now().await;
    drop(shell);
    assert!(timeout(Duration::from_secs(20), told).await.expect("it ends by itself").is_err());
    drop(watchdog);
}

#[tokio::test]
async fn a_watch_that_is_dropped_bites_nobody() {
    let shell = Shell::new("exec sleep 60");
    let (tell, told) = oneshot::channel();
    drop(Watchdog::start(shell.pid(), memory(0), Vec::new(), |what| _ = tell.send(what)));
    assert!(timeout(Duration::from_secs(20), told).await.expect("it ends at once").is_err());
}
