#[cfg(unix)]
pub(crate) async fn r#loop(mut run: Run) {
    run.send("go").await;
}
#[cfg(unix)]
const _: () = {
    ::redroom::private::inventory::submit({
        ::redroom::private::Registration {
            name: ::core::concat!(::core::module_path!(), "::", "loop"),
            file: ::core::file!(),
            line: ::core::line!(),
            ignore: ::redroom::private::Ignore::Because("needs a gateway"),
            should_panic: ::redroom::private::ShouldPanic::With("leaked"),
            tags: &[],
            prepare: || {
                ::redroom::private::Prepared {
                    options: {
                        ::redroom::RunOptions::new()
                            .workspace(
                                redroom::dir("tests/fixtures/calculator").with_secrets(),
                            )
                            .secrets(::redroom::Secrets::new())
                            .agent(Shell::new())
                            .model_proxy(
                                ::redroom::ModelProxy::new("http://localhost:4000")
                                    .header("x-api-key", key()),
                            )
                            .no_tool_call_check()
                            .no_model()
                            .allow_provider_tools(["web_search"])
                            .limits(::redroom::Limits::new().memory("4g").cpus(1))
                            .timeout(Duration::from_secs(60))
                    },
                    body: ::std::boxed::Box::new(move |run| ::std::boxed::Box::pin(async move {
                        let outcome = r#loop(run).await;
                        ::redroom::private::Outcome::into_result(outcome)
                    })),
                }
            },
        }
    });
};
#[cfg(unix)]
#[::core::prelude::v1::test]
#[ignore = "rustc's harness runs no attack: a test with `harness = false` and `redroom::main!();` does"]
fn loop_is_not_run_here() {}
