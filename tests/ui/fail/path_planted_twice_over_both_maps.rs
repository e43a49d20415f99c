use redroom::Run;

#[redroom::attack(workspace = { "a": "" }, files = { "/workspace/a": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
