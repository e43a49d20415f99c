use redroom::Run;

#[redroom::attack(timeout = std::time::Duration::MAX, timeout = std::time::Duration::MAX)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
