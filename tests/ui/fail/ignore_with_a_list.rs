use redroom::Run;

#[redroom::attack]
#[ignore(slow)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
