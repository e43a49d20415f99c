//! A turn of the real agent begins at once, as a user without rights, and asks its model for each step once.

use std::time::Duration;

use redroom::prelude::*;
use redroom::{Answer, Redroom};

/// An agent whose input has no end waits for it as long as its turn may last.
pub(crate) fn soon_over() -> Limits {
    Limits::new().turn_timeout(Duration::from_secs(60))
}

#[redroom::attack(
    model = Script::new().call("Bash", json!({ "command": "id -u; touch ran", "description": "who" })).say_result(str::to_owned),
    limits = soon_over(),
)]
async fn the_agent_does_not_wait_for_input_and_is_nobody_special(run: Run) -> redroom::Result<()> {
    let turn = run.send("Who are you?").await?;
    assert!(turn.final_text.trim().parse::<u32>().is_ok_and(|uid| uid != 0), "{turn:?}");
    // It warns of an input that stays open, after seconds of waiting for it.
    assert_eq!(turn.stderr, "");
    let result = run.finish().await?;
    result.assert_no_leaks();
    assert!(result.changes.iter().any(|change| change.path.as_bytes() == b"/workspace/ran"), "{:?}", result.changes);
    Ok(())
}

/// Twenty answers of every shape that an agent could stumble over.
fn twenty() -> Script {
    let shell = |command: String| json!({ "command": command, "description": "step" });
    let mut script = Script::new();
    for step in 0..17 {
        script = match step % 4 {
            0 => script.call("Bash", shell(format!("echo {step} >> steps"))),
            1 => script.calls((0..4).map(|part| ("Bash", shell(format!("echo {step}.{part} >> steps"))))),
            2 => {
                script.step(Answer::say("Let me look. ×✓").and_call("Bash", shell(format!("echo 'ä{step}' >> steps"))))
            }
            _ => script.step(Answer::say("").and_call("Read", json!({ "file_path": "/workspace/steps" }))),
        };
    }
    script
        .call("Write", json!({ "file_path": "/workspace/large", "content": "x".repeat(900_000) }))
        .call("Read", json!({ "file_path": "/workspace/none" }))
        .say("")
}

#[redroom::attack(agent = ClaudeCode::new("2.1.332").max_turns(40), model = twenty())]
async fn twenty_steps_of_every_shape_are_asked_for_once_each(run: Run) -> redroom::Result<()> {
    run.send("Do it.").await?;
    assert_eq!(run.read_file("large").await?.map(|file| file.len()), Some(900_000));
    let result = run.finish().await?;
    assert_eq!(result.errors, []);
    // An answer that the agent cannot read is asked for again, without streaming.
    let asked = result.model_calls.iter().filter(|call| call.request.path.starts_with("/v1/messages?")).count();
    assert_eq!((asked, result.model_calls.len()), (20, 20), "{:?}", result.model_calls);
    let calls = result.tool_calls.iter().filter(|call| call.tool == "Bash" || call.tool == "Write").count();
    assert_eq!(calls, 5 + 4 * 4 + 4 + 1);
    Ok(())
}

#[redroom::attack(agent = Shell::new())]
async fn the_managed_settings_cannot_be_planted(run: Run) -> redroom::Result<()> {
    run.send("true").await?;
    let session = Redroom::start(Suite::new()).await?;
    let settings = [("/etc/claude-code/managed-settings.json", "{}")];
    let planted = session.start_run(RunOptions::new().name("planted").files(settings).model(Script::new())).await;
    session.stop().await;
    let error = planted.expect_err("settings that would take the place of redroom's");
    assert_eq!(error.code(), "invalid_path");
    assert!(error.detail().contains("managed settings lie there"), "{error}");
    Ok(())
}
