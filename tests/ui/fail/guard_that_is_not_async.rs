use redroom::{Decision, Run, ToolCall};

fn guard(_: ToolCall) -> Decision {
    Decision::allow()
}

#[redroom::attack(tool_call_check = guard)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
