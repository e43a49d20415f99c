use redroom::Run;

#[redroom::attack(workspace = { "a": "", "a": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
