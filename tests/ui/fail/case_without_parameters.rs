use redroom::Run;

#[redroom::attack]
#[redroom::case(polite)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
