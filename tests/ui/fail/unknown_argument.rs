use redroom::Run;

#[redroom::attack(workspce = {})]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
