use redroom::Run;

#[redroom::attack(workspace = { "../outside": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
