use redroom::Run;

#[redroom::attack]
#[test]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
