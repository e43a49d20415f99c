use redroom::Run;

#[redroom::attack(workspace = { "a\nb": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
