use redroom::Run;

#[redroom::attack(pages = { "https://docs.redroom.test/#top": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
