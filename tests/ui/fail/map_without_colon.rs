use redroom::Run;

#[redroom::attack(workspace = { "README.md" "text" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
