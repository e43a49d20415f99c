use redroom::Run;

#[redroom::attack(workspace = 5)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
