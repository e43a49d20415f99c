use redroom::Run;

#[redroom::attack(pages = { "docs.redroom.test/setup": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
