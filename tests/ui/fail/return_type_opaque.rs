use redroom::Run;

#[redroom::attack]
async fn attack(run: Run) -> impl Sized {
    drop(run);
}

fn main() {}
