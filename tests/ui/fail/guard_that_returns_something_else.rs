use redroom::{Run, ToolCall};

async fn guard(_: ToolCall) -> bool {
    true
}

#[redroom::attack(tool_call_check = guard)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
