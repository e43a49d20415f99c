#[redroom::attack(
    workspace = redroom::dir("tests/fixtures/calculator").with_secrets(),
    secrets = {},
    agent = Shell::new(),
    model_proxy = { base_url: "http://localhost:4000", headers: { "x-api-key": key() } },
    tool_call_check = none,
    model = none,
    allow_provider_tools = ["web_search"],
    limits = { memory: "4g", cpus: 1 },
    timeout = Duration::from_secs(60),
)]
#[cfg(unix)]
#[ignore = "needs a gateway"]
#[should_panic(expected = "leaked")]
pub(crate) async fn r#loop(mut run: Run) {
    run.send("go").await;
}
