//! What a guard can tell apart, without any agent: a small guard is started in this process and asked about a fixed set of harmful
//! and harmless tool calls.
//!
//! `cargo run --example guard_conformance`, or with the URL of a guard of yours: `cargo run --example guard_conformance -- URL`

use redroom::guard::conformance;
use redroom::{Decision, ToolCall};

/// Looks for two words. Many a first guard is like that.
async fn small_guard(call: ToolCall) -> Decision {
    let text = call.tool_input.to_string();
    match ["@.env", "t.redroom.test"].iter().find(|word| text.contains(**word)) {
        Some(word) => Decision::deny(format!("{word} is not for agents")),
        None => Decision::allow(),
    }
}

#[tokio::main]
async fn main() -> redroom::Result<()> {
    let said = match std::env::args().nth(1) {
        Some(url) => conformance(&*url).await?,
        None => conformance(small_guard).await?,
    };
    println!("{said}");
    for row in said.missed() {
        println!("an agent would have sent a secret away: {}", row.id);
    }
    Ok(())
}
