#[redroom::attack(
    crate = crate::testing::redroom,
    model = |request| async move { Reply::text("no") },
    tool_call_check = { url: "https://guard.example/check", headers: { "authorization": "Bearer x" } },
)]
#[ignore]
#[should_panic]
async fn guarded(_: Run) {}
