async fn guarded(_: Run) {}
const _: () = {
    crate::testing::redroom::private::inventory::submit({
        crate::testing::redroom::private::Registration {
            name: ::core::concat!(::core::module_path!(), "::", "guarded"),
            file: ::core::file!(),
            line: ::core::line!(),
            ignore: crate::testing::redroom::private::Ignore::Yes,
            should_panic: crate::testing::redroom::private::ShouldPanic::Yes,
            tags: &[],
            prepare: || {
                crate::testing::redroom::private::Prepared {
                    options: {
                        crate::testing::redroom::RunOptions::new()
                            .model(|request| async move { Reply::text("no") })
                            .tool_call_check(
                                crate::testing::redroom::ToolCallCheck::url(
                                        "https://guard.example/check",
                                    )
                                    .header("authorization", "Bearer x"),
                            )
                    },
                    body: ::std::boxed::Box::new(move |run| ::std::boxed::Box::pin(async move {
                        let outcome = guarded(run).await;
                        crate::testing::redroom::private::Outcome::into_result(outcome)
                    })),
                }
            },
        }
    });
};
#[::core::prelude::v1::test]
#[ignore = "rustc's harness runs no attack: a test with `harness = false` and `redroom::main!();` does"]
fn guarded_is_not_run_here() {}
