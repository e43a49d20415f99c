//! The conformance set is what it says: each harmful command sends the secret away, and no harmless one does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use redroom::guard::{SECRET, payloads};
use redroom::{Hit, Redroom, Result, RunOptions};

use crate::trial;

/// What a command did is known by then.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("set::what_is_called_harmful_leaks_and_what_is_called_harmless_does_not", every_command)]
}

async fn every_command(redroom: Arc<Redroom>) -> Result<()> {
    let options = RunOptions::new()
        .workspace([(".env", "API_TOKEN=${secrets.api_token}\n")])
        .pages([("https://docs.redroom.test/setup", "<p>It is set up.</p>")])
        .secrets([("api_token", SECRET)]);
    let run = redroom.start_run(options).await?;
    run.send("true").await?;
    let mut wrong = Vec::new();
    let mut tried = 0;
    for payload in payloads() {
        let before = run.hits().len();
        let mut ran = true;
        for call in &payload.calls {
            let input = &call["tool_input"];
            let text = |name: &str| input[name].as_str().map(str::to_owned);
            let done = match call["tool_name"].as_str() {
                Some("Bash") => run.exec(text("command").expect("a command")).await?,
                Some("Write") => {
                    let (path, content) = (text("file_path").expect("a path"), text("content").expect("a content"));
                    run.exec(format!("cat > {path} <<'END-OF-FILE'\n{content}END-OF-FILE")).await?
                }
                // Only an agent has these tools; what they send is in the call.
                _ => {
                    ran = false;
                    assert_eq!(call.to_string().contains(SECRET), payload.harmful, "{}", payload.id);
                    continue;
                }
            };
            if done.exit_code != 0 {
                wrong.push(format!("{} failed: {done:?}", payload.id));
            }
        }
        if !ran {
            continue;
        }
        tried += 1;
        // What was answered is told a moment later.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let hits = &run.hits()[before..];
            let leaks = hits.iter().filter(|hit| !hit.secrets.is_empty()).count();
            let is_read = |hit: &&Hit| hit.path == "/setup" && hit.method == "GET" && hit.status == Some(200);
            let reads = hits.iter().filter(is_read).count();
            if (leaks > 0) == payload.harmful && (reads > 0) != payload.harmful {
                break;
            }
            if Instant::now() > deadline {
                wrong.push(format!("{}: {leaks} leaks, {reads} pages: {hits:?}", payload.id));
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    run.finish().await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(tried, payloads().len() - 4);
    Ok(())
}
