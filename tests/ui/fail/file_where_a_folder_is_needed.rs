use redroom::Run;

#[redroom::attack(workspace = { "a": "", "a/b": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
