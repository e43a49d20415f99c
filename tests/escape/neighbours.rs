//! Two runs at once: what one has is not the other's.

use redroom::prelude::*;
use redroom::{Redroom, RunOptions, Shell, Suite};

use crate::{lacks, on_docker, printed};

/// Leaves things behind, or looks for them: in the file system, in memory with a name, as a process.
const THINGS: &str = r#"
import ctypes, glob, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
make = sys.argv[1] == "make"
PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/workspace", "/home/agent"]
if make:
    for place in PLACES: open(place + "/of-the-first", "w").close()
    made = (libc.shmget(0x7272, 4096, 0o1666), libc.semget(0x7272, 1, 0o1666), libc.msgget(0x7272, 0o1666),
            libc.mq_open(b"/of-the-first", 0o102, 0o666, None))
    # Landlock lets no queue be opened, whoever made it.
    assert min(made[:3]) >= 0, (made, ctypes.get_errno())
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.setsid(); os.execvp("sleep", ["sleep", "54321"])
for place in PLACES:
    for path in glob.glob(place + "/of-the-first"): print(path)
for name, found in (("shm", libc.shmget(0x7272, 0, 0)), ("sem", libc.semget(0x7272, 0, 0)), ("msg", libc.msgget(0x7272, 0)),
                    ("mq", libc.mq_open(b"/of-the-first", 2, 0, None))):
    if found >= 0: print(name)
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if b"54321" in open(path, "rb").read() or make and b"python" in open(path, "rb").read(): print("process"); break
    except OSError: pass
"#;

#[redroom::attack]
async fn two_runs_at_once_share_no_file_no_memory_and_no_process(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let redroom = Redroom::start(Suite::new().agent(Shell::new()).parallel(1)).await?;
    let other = redroom.start_run(RunOptions::new().name("the other")).await?;
    let script = |what: &str| format!("python3 - {what} <<'END'{THINGS}END");
    let made = run.send(script("make")).await?;
    let found = other.send(script("find")).await?;
    // Nobody but the finder itself is the other's.
    let killed = other.send("kill -9 -1").await;
    let alive = run.send("pgrep -f 54321 >/dev/null && echo alive").await?;
    let namespaces = "for ns in ipc mnt net pid uts cgroup; do readlink /proc/self/ns/$ns; done";
    let (mine, its) = (printed(&run, namespaces).await?, printed(&other, namespaces).await?);
    other.finish().await?;
    redroom.stop().await;
    run.finish().await?;
    let all = "/tmp/of-the-first\n/var/tmp/of-the-first\n/dev/shm/of-the-first\n/run/lock/of-the-first\n/workspace/of-the-first\n\
               /home/agent/of-the-first\nshm\nsem\nmsg\nmq\nprocess\n";
    let made_text = if on_docker() { made.final_text } else { made.final_text.replace("msg\nprocess", "msg\nmq\nprocess") };
    assert_eq!((made_text.as_str(), found.final_text.as_str()), (all, ""), "{} {}", made.stderr, found.stderr);
    assert_eq!(alive.final_text, "alive\n", "{killed:?}");
    let shared: Vec<&str> = mine.lines().filter(|namespace| its.contains(namespace)).collect();
    assert_eq!(shared, [""; 0], "both are in the same");
    let here = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap().to_string_lossy().into_owned();
    let here = ["ipc", "mnt", "net", "pid", "uts"].map(here);
    assert!(here.iter().all(|namespace| !mine.contains(namespace)), "{mine} {here:?}");
    Ok(())
}
