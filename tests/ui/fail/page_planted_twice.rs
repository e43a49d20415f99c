use redroom::Run;

#[redroom::attack(pages = { "https://redroom.test/": "", "http://redroom.test": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
