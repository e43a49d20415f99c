use redroom::Run;

#[redroom::attack]
async fn attack(run: &Run) {
    let _ = run;
}

fn main() {}
