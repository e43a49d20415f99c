//! What the agent gets of a gateway's answers: as they come, as they are, and as an error where they are none.

use std::time::Duration;

use redroom::By;
use redroom::prelude::*;

use crate::gateway::PLAIN;
use crate::text;

/// Asks the model as a plain client in the sandbox does; prints the answer, the status, and how the client ended.
fn ask(what: &str, how: &str) -> String {
    format!(
        r#"curl -sN {how} -w ' %{{http_code}}' -d '{{"do":"{what}"}}' "$ANTHROPIC_BASE_URL/v1/messages"; echo " $?""#
    )
}

#[redroom::attack(model_proxy = PLAIN.proxy(""))]
async fn events_arrive_as_they_are_sent(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let command = format!(r#"{{ {}; }} | while read -r line; do echo "$(date +%s%3N) $line"; done"#, ask("TICK", ""));
    let output = text(&run.exec(command).await?.stdout);
    let mut late: Vec<i64> = output
        .lines()
        .filter_map(|line| {
            let (arrived, sent) = line.split_once(" data: ")?;
            Some(arrived.parse::<i64>().ok()? - sent.parse::<i64>().ok()?)
        })
        .collect();
    assert_eq!(late.len(), 6, "{output}");
    assert_eq!(output.matches(" : a comment").count(), 6, "{output}");
    assert_eq!(output.matches(" event: unknown").count(), 6, "{output}");
    // Held back to the end, half of them would be late by more than 700 ms; some may meet a busy machine all the same. That
    // nothing waits for what comes after it is shown without a clock in the sidecar's own tests.
    late.sort_unstable();
    assert!(late[3] < 500, "milliseconds late: {late:?}");
    Ok(())
}

#[redroom::attack(model_proxy = PLAIN.proxy(""))]
async fn an_answer_that_breaks_off_is_an_error_of_its_call_and_of_the_run(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let output = text(&run.exec(ask("BREAK", "")).await?.stdout);
    // 18: it was promised more.
    assert_eq!(output, "event: ping\n\n 200 18\n");
    is_told(&run, "upstream_aborted").await
}

#[redroom::attack(model_proxy = PLAIN.proxy("").silence(Duration::from_secs(1)))]
async fn an_answer_that_stalls_is_broken_off(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    assert_eq!(text(&run.exec(ask("STALL", "")).await?.stdout), "event: ping\n\n 200 18\n");
    is_told(&run, "timeout").await
}

#[redroom::attack(model_proxy = PLAIN.proxy("").silence(Duration::from_secs(1)))]
async fn a_gateway_that_says_nothing_is_given_up(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let output = text(&run.exec(ask("MUTE", "")).await?.stdout);
    assert!(output.contains("\"timeout\"") && output.ends_with(" 504 0\n"), "{output}");
    is_told(&run, "timeout").await
}

#[redroom::attack(model_proxy = ModelProxy::new("http://127.0.0.1:1"))]
async fn a_gateway_that_is_not_there_is_an_error(run: Run) -> redroom::Result<()> {
    let error = run.send("Hello.").await.expect_err("nobody listens");
    assert_eq!((error.by(), error.code()), (By::ModelProxy, "model_error"));
    assert!(
        error.detail().contains("network_error: the model proxy http://127.0.0.1:1/ could not be asked"),
        "{error}"
    );
    let output = text(&run.exec(ask("x", "")).await?.stdout);
    assert!(output.contains("\"network_error\"") && output.ends_with(" 502 0\n"), "{output}");
    assert!(!output.contains("127.0.0.1"), "where it should be is nothing that the agent learns: {output}");
    is_told(&run, "network_error").await?;
    let open = run.finish().await?.open_questions().join("\n");
    assert_eq!(open.matches("check base_url").count(), 1, "{open}");
    Ok(())
}

/// The last call of the run has this error, and so has the run.
async fn is_told(run: &Run, code: &str) -> redroom::Result<()> {
    let result = run.finish().await?;
    let call = result.model_calls.last().expect("a call");
    let error = call.error.as_ref().map(|error| (error.by(), error.code()));
    assert_eq!(error, Some((By::ModelProxy, code)), "{call:?}");
    assert!(result.errors.iter().any(|error| error.code() == code), "{:?}", result.errors);
    Ok(())
}

#[redroom::attack(model_proxy = PLAIN.proxy(""))]
async fn a_redirection_passes_and_is_not_followed(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let before = PLAIN.asked_by(run.id()).len();
    let output = text(&run.exec(ask("MOVE", "-D -")).await?.stdout).to_lowercase();
    assert!(output.starts_with("http/1.1 307") && output.ends_with("moved 307 0\n"), "{output}");
    assert!(output.contains("\r\nlocation: /elsewhere\r\n") && output.contains("\r\nx-kept: 1\r\n"), "{output}");
    assert!(!output.contains("set-cookie"), "{output}");
    assert_eq!(PLAIN.asked_by(run.id()).len(), before + 1);
    Ok(())
}

#[redroom::attack(model_proxy = PLAIN.proxy("/leaving"))]
async fn a_client_that_leaves_before_the_first_byte_cancels_its_request(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let mut left = PLAIN.left();
    let before = *left.borrow_and_update();
    // 28: it had no more time.
    assert_eq!(text(&run.exec(ask("MUTE", "-m 1")).await?.stdout), " 000 28\n");
    let gone = tokio::time::timeout(Duration::from_secs(10), left.wait_for(|left| *left > before)).await;
    assert!(gone.is_ok_and(|gone| gone.is_ok()), "the request goes on");
    assert_eq!(run.finish().await?.errors, []);
    Ok(())
}
