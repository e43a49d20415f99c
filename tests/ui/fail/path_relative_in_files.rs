use redroom::Run;

#[redroom::attack(files = { "etc/passwd": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
