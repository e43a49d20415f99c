use redroom::Run;

#[redroom::attack]
async fn attack<T>(run: Run) {
    drop(run);
}

fn main() {}
