use redroom::Run;

#[redroom::attack(pages = { "https://me:pw@docs.redroom.test/": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
