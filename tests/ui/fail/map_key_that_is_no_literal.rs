use redroom::Run;

#[redroom::attack(workspace = { readme: "text" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
