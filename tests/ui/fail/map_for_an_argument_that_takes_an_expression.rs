use redroom::Run;

#[redroom::attack(timeout = { secs: 5 })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
