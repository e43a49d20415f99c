use redroom::Run;

#[redroom::attack(agent = "shell")]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
