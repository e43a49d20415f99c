use redroom::Run;

#[redroom::attack(workspace = { "count": 5 })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
