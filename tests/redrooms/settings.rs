//! What one run sets for itself, beside what its redroom has: each run's requests carry its own headers and nobody else's.

use std::collections::HashMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, LazyLock};

use libtest_mimic::Trial;
use redroom::{ModelProxy, Redroom, Result, Run, RunOptions, Suite, ToolCallCheck};

use crate::asking::{Asking, Service, heads_at};
use crate::trial;

/// Where the provider is, for the process that the trials run in.
const PROVIDER: &str = "ANTHROPIC_BASE_URL";
const KEY: &str = "sk-of-the-provider-7731";
/// Marks that process. What begins so is no setting of redroom's.
const MARK: &str = "REDROOM_TEST_PROVIDER";

/// A provider on this machine and a folder for temporary files, and this executable once more with an environment that has both.
/// `None`: this is it. Whoever counts what is left among temporary files counts no other program's.
pub(crate) fn with_provider() -> Option<ExitCode> {
    if std::env::var_os(MARK).is_some() {
        return None;
    }
    let provider = Service::start();
    let temporary = tempfile::tempdir().expect("there is room for temporary files");
    let executable = std::env::current_exe().expect("this executable has a path");
    let ended = Command::new(executable)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .env(PROVIDER, provider.url())
        .env("ANTHROPIC_API_KEY", KEY)
        .env("TMPDIR", temporary.path())
        .status();
    let code = ended.expect("this executable can be started").code();
    Some(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("settings::four_runs_side_by_side_have_each_their_own_model_and_guard", suite, four),
        trial("settings::what_is_wrong_with_one_run_is_said_before_anything_is_started", suite, wrong),
    ]
}

static MODEL: LazyLock<&'static Service> = LazyLock::new(Service::start);
static GUARD: LazyLock<&'static Service> = LazyLock::new(Service::start);

fn model(name: &str) -> ModelProxy {
    ModelProxy::new(format!("{}/{name}", MODEL.url()))
        .header("x-api-key", format!("sk-model-{name}"))
        .header("x-mine", name)
}

fn guard(name: &str) -> ToolCallCheck {
    let url = format!("{}/{name}", GUARD.url());
    ToolCallCheck::url(url).header("authorization", format!("Bearer guard-{name}")).header("x-mine", name).into()
}

/// The redroom's own model and guard, which only a run that sets nothing has.
fn suite() -> Suite {
    Suite::new().parallel(4).model_proxy(model("suite")).tool_call_check(guard("suite"))
}

/// Asks the model and reports a tool call, over and over, so that the runs are in each other's way if they can be.
const ASK: &str = r#"
for number in 1 2 3 4 5; do
    curl -s -d '{"messages":[]}' $MODEL/v1/messages
    call='{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"'$number'","tool_input":{}}'
    curl -s -o /dev/null -d "$call" $HOOK
done
"#;

async fn start(redroom: &Redroom, name: &str, options: RunOptions) -> Result<Run> {
    redroom.start_run(options.name(name).agent(Asking::new())).await
}

async fn four(redroom: Arc<Redroom>) -> Result<()> {
    let own = RunOptions::new;
    let runs = tokio::try_join!(
        start(&redroom, "neither", own().no_model_proxy().no_tool_call_check()),
        start(&redroom, "model", own().model_proxy(model("one")).no_tool_call_check()),
        start(&redroom, "guard", own().no_model().tool_call_check(guard("two"))),
        start(&redroom, "both", own().model_proxy(model("three")).tool_call_check(guard("four"))),
    )?;
    let runs = [runs.0, runs.1, runs.2, runs.3];
    let turns = futures(&runs).await?;
    assert!(turns.iter().all(|text| text == &"{}".repeat(5)), "{turns:?}");
    let mut results = HashMap::new();
    for run in &runs {
        results.insert(run.name().to_owned(), run.finish().await?);
    }
    // A run after them sets nothing, and has what the redroom has.
    let last = start(&redroom, "nothing", RunOptions::new()).await?;
    last.send(ASK).await?;
    last.finish().await?;

    let provider = heads_at(&std::env::var(PROVIDER).expect("set for this process"));
    let heads = |run: &Run| {
        let of_run = format!("x-redroom-run: {}\r\n", run.id());
        let here =
            |service: &Service| service.asked_by(run.id()).into_iter().map(|asked| asked.head).collect::<Vec<_>>();
        let elsewhere = provider.split("\r\n\r\n").map(|head| format!("{head}\r\n"));
        let elsewhere: Vec<String> = elsewhere.filter(|head| head.contains(&of_run)).collect();
        (here(&MODEL), here(&GUARD), elsewhere)
    };
    let [neither, with_model, with_guard, both] = &runs;
    for (run, at_model, at_guard, at_provider) in [
        (neither, None, None, 5),
        (with_model, Some("one"), None, 0),
        (with_guard, None, Some("two"), 5),
        (both, Some("three"), Some("four"), 0),
        (&last, Some("suite"), Some("suite"), 0),
    ] {
        let (model, guard, provider) = heads(run);
        let counts = (model.len(), guard.len(), provider.len());
        let count = |name: Option<&str>| if name.is_some() { 5 } else { 0 };
        assert_eq!(counts, (count(at_model), count(at_guard), at_provider), "{}", run.name());
        for head in &model {
            assert_own(head, "/v1/messages", "x-api-key: sk-model-", at_model);
        }
        for head in &guard {
            assert_own(head, " http/1.1", "authorization: bearer guard-", at_guard);
        }
        for head in &provider {
            assert!(head.contains("post /v1/messages ") && head.contains(&format!("x-api-key: {KEY}\r\n")), "{head}");
            assert!(!head.contains("x-mine") && !head.contains("sk-model"), "{head}");
        }
    }
    for (name, checked) in [("neither", false), ("model", false), ("guard", true), ("both", true)] {
        let result = &results[name];
        assert_eq!(result.errors, [], "{name}");
        let calls: Vec<_> = result.tool_calls.iter().map(|call| (call.checked, call.denied())).collect();
        assert_eq!(calls, [(checked, false); 5], "{name}");
    }
    Ok(())
}

/// One's own name, credentials and path, once each, and nothing of the others.
#[track_caller]
fn assert_own(head: &str, path: &str, credentials: &str, name: Option<&str>) {
    let name = name.unwrap_or("nobody");
    assert!(head.starts_with(&format!("post /{name}{path}")), "{head}");
    assert!(
        head.contains(&format!("{credentials}{name}\r\n")) && head.contains(&format!("x-mine: {name}\r\n")),
        "{head}"
    );
    assert_eq!((head.matches("x-mine").count(), head.matches(credentials).count()), (1, 1), "{head}");
}

async fn futures(runs: &[Run; 4]) -> Result<Vec<String>> {
    let [one, two, three, four] = runs;
    let (one, two, three, four) = tokio::try_join!(one.send(ASK), two.send(ASK), three.send(ASK), four.send(ASK))?;
    Ok([one, two, three, four].map(|turn| turn.final_text).into())
}

async fn wrong(redroom: Arc<Redroom>) -> Result<()> {
    let own = RunOptions::new;
    for (options, code) in [
        (own().model_proxy(ModelProxy::new("nowhere").header("x-api-key", "sk-of-a-slip-7731")), "invalid_model_proxy"),
        (own().model_proxy(ModelProxy::new("http://h/v1")), "invalid_model_proxy"),
        (own().tool_call_check(ToolCallCheck::url("sk-of-a-slip-7731")), "invalid_tool_call_check"),
        (own().allow_provider_tools(["credentials"]), "invalid_provider_tool"),
        (own().allow_provider_tools(["Web Search"]), "invalid_provider_tool"),
    ] {
        let error = start(&redroom, "wrong", options).await.expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        assert!(!error.to_string().contains("7731"), "{error}");
    }
    assert!(!redroom.evidence_folder().exists(), "something was started");
    Ok(())
}
