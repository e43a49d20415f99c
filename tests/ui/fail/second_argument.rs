use redroom::Run;

#[redroom::attack]
async fn attack(run: Run, name: &str) {
    drop((run, name));
}

fn main() {}
