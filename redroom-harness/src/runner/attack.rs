//! One attack from its registration to its outcome: the run is started, the body is played to its end, its time or its
//! panic, and the run is finished whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use redroom_sidecar::wire::{Hit, Protocol};

use super::panics;
use crate::error::{By, Error};
use crate::evidence::{RunResult, held, telling};
use crate::redroom::Redroom;
use crate::registry::{Prepared, Registration, ShouldPanic};
use crate::report::record::Outcome;
use crate::report::story::{Telling, story};
use crate::run::Run;

/// What an attack came to, for the reports.
pub(super) struct Played {
    pub(super) outcome: Outcome,
    /// What happened, in a few lines.
    pub(super) story: String,
    pub(super) properties: Vec<(&'static str, String)>,
    /// What the console should say although the attack passed.
    pub(super) notice: Option<String>,
}

impl Played {
    pub(super) fn ignored(reason: String) -> Self {
        Played::without_run(Outcome::Skipped(reason))
    }

    /// redroom could not do its part: not a verdict of the test.
    pub(super) fn could_not(error: &Error) -> Self {
        Played::without_run(Outcome::Error(error.to_string()))
    }

    fn without_run(outcome: Outcome) -> Self {
        Played { outcome, story: String::new(), properties: Vec::new(), notice: None }
    }
}

/// How a body ended.
enum Ended {
    Returned,
    Failed(String),
    Panicked(panics::Told),
    TimedOut(Error),
}

/// Plays one attack. What it does has been shown already where it is `streamed`.
pub(super) async fn play(
    attack: &'static Registration,
    redroom: &Redroom,
    longest: Duration,
    streamed: bool,
) -> Played {
    // Expressions in the attribute and in a case are the test's own code.
    let Prepared { options, body } = match catch_unwind(attack.prepare) {
        Ok(prepared) => prepared,
        Err(payload) => {
            let told = panics::told(&*payload, attack.file, attack.line);
            return Played::without_run(Outcome::Failed(held::everything().text(told.message)));
        }
    };
    let timeout = options.given_timeout().unwrap_or(longest);
    let run = match redroom.start_run(options.name(attack.test_name())).await {
        Ok(run) => run,
        Err(error) => return Played::could_not(&error),
    };
    let shown = |message: String| run.shown(message);
    let body = AssertUnwindSafe(body(run.clone())).catch_unwind();
    let ended = match tokio::time::timeout(timeout, body).await {
        Ok(Ok(Ok(()))) => Ended::Returned,
        Ok(Ok(Err(message))) => Ended::Failed(shown(message)),
        Ok(Err(payload)) => {
            let panics::Told { message, trace } = panics::told(&*payload, attack.file, attack.line);
            Ended::Panicked(panics::Told { message: shown(message), trace: trace.map(shown) })
        }
        Err(_) => Ended::TimedOut(Error::new(
            By::Redroom,
            "attack_timeout",
            format!("the attack took longer than {} s; set `timeout` if it needs more", timeout.as_secs_f64()),
        )),
    };
    let has_asked = run.is_finished();
    let finished = match &ended {
        Ended::TimedOut(error) => run.cut_short(error.clone()).await,
        // A body that has ended can leave a turn behind; nobody waits for it any more.
        _ if run.is_busy() => run.cut_short(turn_abandoned()).await,
        _ => run.finish().await,
    };
    let result = match finished {
        Ok(result) => result,
        Err(error) => return Played::could_not(&error),
    };
    let outcome = redacted(outcome(attack, &ended, &result), &run);
    let (message, failed) = match &outcome {
        Outcome::Failed(message) | Outcome::Error(message) => (message.as_str(), true),
        Outcome::Passed | Outcome::Skipped(_) => ("", false),
    };
    let telling = Telling { message, streamed, failed };
    let mut story = run.redact(&story(&result, &run.planted(), telling, |text| run.redact(text)));
    if let (Ended::Panicked(panics::Told { trace: Some(trace), .. }), true) = (&ended, failed) {
        story.push_str("stack backtrace of the test (RUST_BACKTRACE=full has everything):\n");
        story.push_str(&run.redact(trace));
    }
    let notice = match (&ended, &outcome) {
        (Ended::Returned, Outcome::Passed) => passed_with_leaks(attack.test_name(), &result)
            .or_else(|| passed_without_a_command(attack.test_name(), &result, |text| run.redact(text)))
            .or_else(|| (!has_asked).then(|| passed_unasked(attack.test_name()))),
        _ => None,
    };
    Played { outcome, story, properties: properties(&result), notice }
}

/// A leak is a fact, and what becomes of it is the test's to say. That it said nothing may be an oversight.
fn passed_with_leaks(name: &str, result: &RunResult) -> Option<String> {
    let mut channels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for leak in result.leaks() {
        let hit = result.hits.iter().find(|hit| hit.id.to_string() == leak.reference);
        channels.entry(hit.map_or("other", |hit| channel(hit.protocol))).or_default().insert(&leak.secret);
    }
    if channels.is_empty() {
        return None;
    }
    let channels: Vec<String> = channels
        .into_iter()
        .map(|(channel, secrets)| format!("{} over {channel}", secrets.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    Some(format!(
        "{name} passed, although secrets left its sandbox: {}; if that is a failure, call result.assert_no_leaks(). evidence: {}",
        channels.join("; "),
        result.artifacts.folder.display()
    ))
}

/// What a shell says of a command that does not exist. What was to be tried was not, perhaps, and that passes.
fn passed_without_a_command(name: &str, result: &RunResult, clean: impl Fn(&str) -> String) -> Option<String> {
    const NOT_FOUND: i64 = 127;
    let turn = result.turns.iter().find(|turn| turn.exit_code == Some(NOT_FOUND))?;
    let end = telling::bad_end(turn, clean)?;
    Some(format!(
        "{name} passed, although turn {} ended with {end}; a container has the tools of redroom's image, a jail those of this machine",
        turn.index + 1
    ))
}

/// Whoever wrote it may have meant to judge the result, and did not.
fn passed_unasked(name: &str) -> String {
    format!(
        "{name} passed without a look at its result: it shows that its turns could be sent, no more; end it with \
         `let result = run.finish().await?;` and what must hold, such as result.assert_no_leaks()"
    )
}

fn channel(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Https => "https",
        Protocol::Http => "http",
        Protocol::Dns => "dns",
        _ => "other",
    }
}

fn no_turn() -> Error {
    Error::redroom(
        "no_turn",
        "the attack never sent the agent a message, so nothing was tried; call `run.send(…).await?`",
    )
}

const TURN_ABANDONED: &str = "turn_abandoned";

fn turn_abandoned() -> Error {
    Error::redroom(
        TURN_ABANDONED,
        "the attack ended while a turn or command of it was still running, which was cut short; `.await` it before the attack ends",
    )
}

/// What is told of a test goes to logs and reports; a test's own message can hold what it planted.
fn redacted(outcome: Outcome, run: &Run) -> Outcome {
    match outcome {
        Outcome::Failed(message) => Outcome::Failed(run.redact(&message)),
        Outcome::Error(message) => Outcome::Error(run.redact(&message)),
        told @ (Outcome::Passed | Outcome::Skipped(_)) => told,
    }
}

fn outcome(attack: &Registration, ended: &Ended, result: &RunResult) -> Outcome {
    let evidence = format!("\nevidence: {}", result.artifacts.folder.display());
    let with_errors = |mut message: String| {
        for error in &result.errors {
            if message.contains(error.detail()) {
                continue;
            }
            message.push_str(&format!("\n  {} ({}): {}", error.code(), error.by(), error.detail()));
        }
        // The story says it.
        message.replace(&evidence, "")
    };
    match (ended, &attack.should_panic) {
        (Ended::TimedOut(error), _) => Outcome::Failed(with_errors(error.to_string())),
        (Ended::Failed(message), ShouldPanic::No) if is_ours(message, result) => {
            Outcome::Error(with_errors(message.clone()))
        }
        (Ended::Failed(message), ShouldPanic::No) => Outcome::Failed(with_errors(message.clone())),
        (Ended::Panicked(panics::Told { message, .. }), ShouldPanic::No) => {
            Outcome::Failed(with_errors(message.clone()))
        }
        (Ended::Returned, ShouldPanic::No) if result.errors.iter().any(|error| error.code() == TURN_ABANDONED) => {
            Outcome::Failed(with_errors(turn_abandoned().to_string()))
        }
        (Ended::Returned, ShouldPanic::No) if result.turns.is_empty() => {
            Outcome::Failed(with_errors(no_turn().to_string()))
        }
        (Ended::Returned, ShouldPanic::No) => Outcome::Passed,
        (Ended::Panicked(_), ShouldPanic::Yes) => Outcome::Passed,
        (Ended::Panicked(panics::Told { message, .. }), ShouldPanic::With(expected)) if message.contains(*expected) => {
            Outcome::Passed
        }
        (Ended::Panicked(panics::Told { message, .. }), ShouldPanic::With(expected)) => Outcome::Failed(with_errors(
            format!("the panic did not contain the expected text\n  panic: {message}\n  expected: {expected}"),
        )),
        (Ended::Returned, _) => Outcome::Failed(with_errors("the attack did not panic as it should".to_owned())),
        (Ended::Failed(message), _) => Outcome::Failed(with_errors(format!(
            "the attack did not panic as it should, but returned an error: {message}"
        ))),
    }
}

/// Whether a body failed with an error of the run that is not about what the test asks: the machinery broke, not the agent.
fn is_ours(message: &str, result: &RunResult) -> bool {
    // What holds a sidecar may hold the sandbox as well, and either end may be seen first. An agent can end but one of them.
    let bereft = result.errors.iter().any(|error| error.by() == By::Sidecar && error.code() == "sidecar_lost");
    let ours = |error: &&Error| match error.by() {
        By::Redroom | By::Backend | By::Sidecar => true,
        _ => bereft && error.code() == "sandbox_died",
    };
    result.errors.iter().filter(ours).any(|error| message.contains(error.detail()))
}

fn properties(result: &RunResult) -> Vec<(&'static str, String)> {
    let leaks = result.leaks();
    let by = |protocol: Protocol| {
        let through = |hit: &&Hit| hit.protocol == protocol;
        let hits: Vec<String> = result.hits.iter().filter(through).map(|hit| hit.id.to_string()).collect();
        leaks.iter().filter(|leak| hits.contains(&leak.reference)).count().to_string()
    };
    let mut properties = vec![
        ("backend", result.backend.name.clone()),
        ("agent", result.agent.name.clone()),
        ("agent_version", result.agent.version.clone()),
        ("model", result.agent.model.clone().unwrap_or_default()),
        ("leaks", leaks.len().to_string()),
        ("leaks_http", by(Protocol::Http)),
        ("leaks_https", by(Protocol::Https)),
        ("leaks_dns", by(Protocol::Dns)),
        ("leaks_other", by(Protocol::Other)),
        ("tool_calls", result.tool_calls.len().to_string()),
        ("evidence", result.artifacts.folder.display().to_string()),
    ];
    let costs: Vec<f64> = result.turns.iter().filter_map(|turn| turn.cost_usd).collect();
    if !costs.is_empty() {
        properties.push(("cost_usd", format!("{:.4}", costs.iter().sum::<f64>())));
    }
    properties
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(hits: serde_json::Value, sightings: serde_json::Value, errors: &[Error]) -> RunResult {
        serde_json::from_value(json!({
            "schema_version": 1, "id": "r", "attack": "a",
            "agent": { "name": "shell", "version": "1", "model": null },
            "backend": { "name": "docker", "isolated": true, "why": "" },
            "turns": [], "transcript": "", "tool_calls": [], "hits": hits, "model_calls": [],
            "changes": [], "diff": "", "sightings": sightings, "visited_pages": [], "unvisited_pages": [], "errors": errors,
            "artifacts": { "folder": "/evidence/a", "files": [] },
        }))
        .unwrap()
    }

    #[test]
    fn a_sandbox_that_died_with_its_sidecar_is_no_failure_of_the_agent() {
        let died = Error::new(By::Agent, "sandbox_died", "the sandbox ended under the agent");
        let lost = Error::new(By::Sidecar, "sidecar_lost", "the stream to the sidecar was lost");
        let of = |errors: &[Error]| is_ours(&died.to_string(), &result(json!([]), json!([]), errors));
        assert!(of(&[died.clone(), lost.clone()]));
        assert!(!of(std::slice::from_ref(&died)));
        // Whatever else failed is the test's own.
        assert!(!is_ours("left is not right", &result(json!([]), json!([]), &[died.clone(), lost])));
    }

    #[test]
    fn a_command_that_was_not_found_is_told_where_the_attack_passes() {
        let ended = |exit_code: i64| {
            let mut result = result(json!([]), json!([]), &[]);
            let turn = json!({
                "index": 0, "message": "", "final_text": "", "duration_ms": 1, "exit_code": exit_code,
                "stderr": "bash: line 1: crul PLATYPUS: command not found\n",
            });
            result.turns.push(serde_json::from_value(turn).unwrap());
            passed_without_a_command("mine::attack", &result, |text| text.replace("PLATYPUS", "[redacted]"))
        };
        assert_eq!((ended(0), ended(1)), (None, None));
        let told = ended(127).unwrap();
        assert!(told.starts_with("mine::attack passed, although turn 1 ended with exit code 127: bash: "), "{told}");
        assert!(told.contains("crul [redacted]: command not found;"), "{told}");
    }

    #[test]
    fn a_leak_that_a_test_lets_pass_is_told_with_its_channels_and_its_evidence() {
        let hit = |id: u64, protocol: &str| {
            json!({ "id": id, "at_ms": 1, "protocol": protocol, "host": "t.redroom.test", "address": "192.0.2.20:443",
                "transport": "tcp", "method": "POST", "body_bytes": 0, "truncated": false, "complete": true, "blocked": false })
        };
        let leak = |secret: &str, hit: u64| json!({ "secret": secret, "encoding": "plain", "where": "hit", "ref": hit.to_string(), "part": "body" });
        let result = |sightings| result(json!([hit(1, "https"), hit(2, "dns")]), sightings, &[]);
        let leaks = json!([leak("token", 1), leak("token", 1), leak("key", 1), leak("token", 2)]);
        let told = passed_with_leaks("mine::attack", &result(leaks)).unwrap();
        assert!(told.starts_with("mine::attack passed"), "{told}");
        assert!(told.contains("token over dns; key, token over https"), "{told}");
        assert!(told.contains("assert_no_leaks") && told.ends_with("/evidence/a"), "{told}");
        let elsewhere = json!([{ "secret": "token", "encoding": "plain", "where": "reply", "ref": "0" }]);
        assert_eq!(passed_with_leaks("mine::attack", &result(elsewhere)), None);
    }
}
