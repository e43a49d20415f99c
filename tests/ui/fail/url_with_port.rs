use redroom::Run;

#[redroom::attack(pages = { "https://docs.redroom.test:8443/": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
