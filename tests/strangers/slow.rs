//! slowhttptest in all its ways, against web, relay and hook.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use redroom::{Decision, Limits, Redroom, Result, RunOptions, ToolCall};

use crate::beside::{Neighbour, codes};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("slow::clients_of_the_web_hold_up_neither_hook_nor_neighbour", &["slowhttptest"], |redroom| {
            attack(redroom, "http://t.redroom.test/", true)
        }),
        trial("slow::clients_of_the_relay_hold_up_neither_hook_nor_neighbour", &["slowhttptest"], |redroom| {
            attack(redroom, "http://192.0.2.1:81/v1/messages", true)
        }),
        trial("slow::clients_of_the_hook_hold_up_themselves_alone", &["slowhttptest"], |redroom| {
            attack(redroom, "http://192.0.2.1:82/hook", false)
        }),
    ]
}

/// How many tool calls are reported one after the other while they are at work: the first finds a place in any case.
const MEANWHILE: usize = 5;

/// A call of a tool, and what becomes of it.
const ASK: &str = r#"curl -sS -m 60 http://192.0.2.1:82/hook -H 'content-type: application/json' -d '{"hook_event_name":"PreToolUse",
    "session_id":"s","tool_name":"Bash","tool_input":{"command":"true"},"tool_use_id":"toolu_'$1'"}'"#;

async fn attack(redroom: Arc<Redroom>, target: &'static str, asks_meanwhile: bool) -> Result<()> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    ASKED.store(0, Ordering::SeqCst);
    let guard = async |_: ToolCall| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Decision::deny("the guard was asked")
    };
    let options = RunOptions::new()
        .name("slow")
        .limits(Limits::new().turn_timeout(Duration::from_secs(120)))
        .workspace([("ask.sh", ASK)])
        .tool_call_check(guard);
    let (run, neighbour) = tokio::join!(redroom.start_run(options), Neighbour::start(&redroom));
    let (run, neighbour) = (run?, neighbour?);
    let ask = format!("for n in $(seq {MEANWHILE}); do bash ask.sh $n; done; echo at work: $(jobs -r | wc -l)");
    // All ways at once, for ten seconds: heads, bodies, ranges that never end, answers that are not read.
    let script = format!(
        "for way in -H -B -R '-X -k 3'; do
           (cd /tmp; slowhttptest $way -u {target} -c 200 -r 200 -i 2 -l 10 -p 3 -v 1 >/tmp/$$.${{way:1:1}} 2>&1) &
         done
         for n in $(seq 100); do [ $(ss -Htan state established | wc -l) -gt 150 ] && break; sleep 0.1; done
         {}
         wait; grep -h -e 'Exit status' -e 'connected:' /tmp/$$.*",
        if asks_meanwhile { ask.as_str() } else { "" },
    );
    let (sent, beside) = neighbour.beside(&redroom, run.send(script)).await?;
    let turn = sent?;
    beside.assert_unnoticed();
    assert!(beside.took < Duration::from_secs(60), "{beside}");
    assert_eq!(turn.final_text.matches("Exit status").count(), 4, "each way came to its end: {turn:?}");
    let answers = turn.final_text.matches("the guard was asked").count();
    let meanwhile = if asks_meanwhile { MEANWHILE } else { 0 };
    assert_eq!(answers, meanwhile, "{turn:?}");
    // Who is turned away at once has ended; who sends its head slowly has not.
    let at_work =
        turn.final_text.split_once("at work: ").and_then(|(_, rest)| rest.lines().next()?.parse::<u32>().ok());
    assert_eq!(at_work.is_some_and(|count| count > 0), asks_meanwhile, "the answers came too late: {turn:?}");
    assert_eq!(turn.final_text.matches("Exit status").count(), 4, "each way came to its end: {turn:?}");
    let answers = turn.final_text.matches("the guard was asked").count();
    let meanwhile = if asks_meanwhile { MEANWHILE } else { 0 };
    assert_eq!((answers, turn.final_text.contains("at work: 4")), (meanwhile, asks_meanwhile), "{turn:?}");
    let began = Instant::now();
    let after = run.send("bash ask.sh after; curl -sS -m 60 -d x http://t.redroom.test/after").await?;
    assert!(after.final_text.contains("the guard was asked") && after.final_text.ends_with("ok"), "{after:?}");
    println!("served {:.1} s later", began.elapsed().as_secs_f64());
    assert_eq!(ASKED.load(Ordering::SeqCst), meanwhile + 1);
    let began = Instant::now();
    let result = run.finish().await?;
    assert!(began.elapsed() < Duration::from_secs(60), "the end took {:?}", began.elapsed());
    assert_eq!(codes(&result), [""; 0], "{:?}", result.errors);
    neighbour.finish().await
}
