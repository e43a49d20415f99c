//! A flood fills no memory and hides no secret, and who lives next door notices nothing of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use redroom::{Limits, Redroom, Result, RunOptions, Suite};

use crate::{start, trial};

pub(crate) fn trials() -> Vec<Trial> {
    let suite = || Suite::new().parallel(2);
    let whole = trial("floods::a_hundred_thousand_requests_hide_no_secret_and_fill_no_memory", suite, hundred_thousand);
    vec![
        trial(
            "floods::ten_thousand_requests_names_and_idle_connections_hide_no_secret_and_fill_no_memory",
            suite,
            ten_thousand,
        ),
        // It takes minutes.
        whole.with_ignored_flag(true),
    ]
}

/// The most that a sidecar may ever have had in memory, in KiB.
const MEMORY: u64 = 128 * 1024;

const FLOOD: &str = r#"
import http.client, socket, sys, threading
count = int(sys.argv[1])
early, late = open("tokens").read().split()
idle = []
for n in range(1000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(("1.1.1.1", 80)); idle.append(s)
def ask(n):
    label = b"flood%d" % n
    return b"\0\7\1\0\0\1\0\0\0\0\0\0" + bytes([len(label)]) + label + b"\7redroom\4test\0\0\1\0\1"
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); names.settimeout(10)
for n in range(count // 10):
    names.sendto(ask(n), ("192.0.2.53", 53)); names.recv(512)
numbers = iter(range(1, count + 1)); lock = threading.Lock()
def post(c, n):
    c.request("POST", f"/{n}", {3: early, count - 2: late}.get(n, "").ljust(4096, "x"))
    c.getresponse().read()
def work():
    c = http.client.HTTPConnection("t.redroom.test")
    while True:
        with lock: n = next(numbers, None)
        if n is None: return
        post(c, n)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("sent", count)
"#;

async fn ten_thousand(redroom: Arc<Redroom>) -> Result<()> {
    flood(&redroom, 10_000).await
}

async fn hundred_thousand(redroom: Arc<Redroom>) -> Result<()> {
    flood(&redroom, 100_000).await
}

async fn flood(redroom: &Redroom, count: usize) -> Result<()> {
    let options = RunOptions::new()
        .name("flood")
        .limits(Limits::new().turn_timeout(Duration::from_secs(3600)))
        .workspace([("tokens", "${secrets.early} ${secrets.late}"), ("flood.py", FLOOD)])
        .secrets([("early", "PLATYPUS-7731"), ("late", "WOMBAT-4412")]);
    let (flooding, neighbour) = tokio::join!(redroom.start_run(options), start(redroom, "neighbour"));
    let (flooding, neighbour) = (flooding?, neighbour?);
    let beside = async {
        let mut answers = 0;
        for _ in 0..20 {
            let turn = neighbour.send("curl -sS -m 30 http://page.redroom.test/").await?;
            answers += usize::from(turn.final_text == "page of neighbour");
        }
        Ok(answers)
    };
    let (sent, answers) = tokio::join!(flooding.send(format!("python3 flood.py {count}")), beside);
    let (sent, answers): (_, Result<usize>) = (sent?, answers);
    assert_eq!((sent.final_text.as_str(), answers?), (format!("sent {count}\n").as_str(), 20), "{}", sent.stderr);
    let peaks = peaks_of_sidecars(redroom.session());
    if redroom.backend().name.starts_with("docker") && UnixStream::connect(SOCKET).is_ok() {
        assert_eq!(peaks.len(), 2, "{peaks:?}");
        println!("sidecars had at most {peaks:?} KiB");
    }
    assert!(peaks.iter().all(|peak| *peak <= MEMORY), "{peaks:?} KiB");

    let (result, neighbour) = tokio::join!(flooding.finish(), neighbour.finish());
    let (result, neighbour) = (result?, neighbour?);
    let leaked = |secret: &str| {
        let leak = result.leaks().into_iter().find(|leak| leak.secret == secret).expect("it was sent");
        result.hits.iter().find(|hit| hit.id.to_string() == leak.reference).expect("it is kept").path.clone()
    };
    assert_eq!((leaked("early"), leaked("late")), ("/3".to_owned(), format!("/{}", count - 2)));
    // Each hit is there, or was counted: requests, names, those looked up for the requests, and connections that said nothing.
    let highest = result.hits.iter().map(|hit| hit.id).max().unwrap_or_default();
    let dropped: Vec<_> = result.errors.iter().filter(|error| error.code() == "entries_dropped").collect();
    assert_eq!(dropped.len(), 1, "{:?}", result.errors);
    let told = format!("{} hits", highest - result.hits.len() as u64);
    assert!(dropped[0].detail().starts_with(&told), "{told}: {}", dropped[0].detail());
    assert!(highest >= (count + count / 10) as u64, "{highest}");
    assert_eq!(result.errors.len(), 1, "{:?}", result.errors);
    assert_eq!((neighbour.errors.as_slice(), neighbour.leaks().len()), (&[][..], 0));
    assert!(redroom.unattributed_hits().is_empty());
    Ok(())
}

const SOCKET: &str = "/var/run/docker.sock";

/// The most memory that each sidecar of a session ever had, as the kernel counts it from outside. None for a jail, whose sidecars
/// are threads of this process.
fn peaks_of_sidecars(session: &str) -> Vec<u64> {
    let listed = ask(&format!("/containers/json?filters=%7B%22label%22%3A%5B%22redroom.session%3D{session}%22%5D%7D"));
    let ids = listed.as_array().into_iter().flatten().filter_map(|container| container["Id"].as_str());
    let processes = ids.map(|id| ask(&format!("/containers/{id}/json")));
    let sidecars =
        processes.filter(|container| container["Path"].as_str().is_some_and(|path| path.contains("sidecar")));
    sidecars.filter_map(|container| peak(container["State"]["Pid"].as_u64()?)).collect()
}

fn peak(process: u64) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

fn ask(path: &str) -> serde_json::Value {
    let Ok(mut engine) = UnixStream::connect(SOCKET) else { return serde_json::Value::Null };
    let mut answer = String::new();
    let asked =
        write!(engine, "GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n").and_then(|()| engine.read_to_string(&mut answer));
    let body = asked.ok().and_then(|_| answer.split_once("\r\n\r\n")).map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}
