use redroom::Run;

#[redroom::attack]
async fn attack(run: Run) -> u32 {
    drop(run);
    1
}

fn main() {}
