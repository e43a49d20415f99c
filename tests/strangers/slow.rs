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

/// How many tool calls are reported one after the other while they are at work, at least and at most: the first ones find a place in
/// any case, and are there before all places are taken.
const MEANWHILE: [usize; 2] = [5, 30];
/// The most that an answer may take, on a machine that does much else. Who waits for one of them to go waits longer.
const ANSWERED: f64 = 4.0;

/// A call of a tool, what becomes of it, and how long that took.
const ASK: &str = r#"curl -sS -m 60 -w ' took %{time_total}\n' http://192.0.2.1:82/hook -H 'content-type: application/json' -d '{"hook_event_name":"PreToolUse",
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
    let [least, most] = MEANWHILE;
    let ask = format!("for n in $(seq {most}); do jobs -r | grep -q . || break; bash ask.sh $n; sleep 0.2; done");
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
    let took: Vec<f64> =
        turn.final_text.lines().filter_map(|line| line.rsplit_once(" took ")?.1.parse().ok()).collect();
    let slowest = took.iter().copied().fold(0.0, f64::max);
    println!("{answers} answers meanwhile, the slowest after {slowest:.2} s");
    assert_eq!(answers, took.len(), "{turn:?}");
    assert!(if asks_meanwhile { answers >= least } else { answers == 0 }, "{answers} answers came in time: {turn:?}");
    assert!(slowest < ANSWERED, "the answers took {took:?}");
    let began = Instant::now();
    let after = run.send("bash ask.sh after; curl -sS -m 60 -d x http://t.redroom.test/after").await?;
    assert!(after.final_text.contains("the guard was asked") && after.final_text.ends_with("ok"), "{after:?}");
    println!("served {:.1} s later", began.elapsed().as_secs_f64());
    assert_eq!(ASKED.load(Ordering::SeqCst), answers + 1);
    let began = Instant::now();
    let result = run.finish().await?;
    assert!(began.elapsed() < Duration::from_secs(60), "the end took {:?}", began.elapsed());
    assert_eq!(codes(&result), [""; 0], "{:?}", result.errors);
    neighbour.finish().await
}
