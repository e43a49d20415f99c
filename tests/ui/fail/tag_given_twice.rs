use redroom::Run;

#[redroom::attack(tags = ["dns", "slow", "dns"])]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
