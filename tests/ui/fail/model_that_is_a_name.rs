use redroom::Run;

#[redroom::attack(model = "sonnet")]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
