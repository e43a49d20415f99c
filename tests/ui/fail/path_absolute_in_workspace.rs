use redroom::Run;

#[redroom::attack(workspace = { "/etc/passwd": "" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
