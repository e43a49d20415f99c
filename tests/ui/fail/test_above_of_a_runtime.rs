use redroom::Run;

#[tokio::test]
#[redroom::attack]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
