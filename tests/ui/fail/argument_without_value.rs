use redroom::Run;

#[redroom::attack(workspace)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
