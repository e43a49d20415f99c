use redroom::Run;

#[redroom::attack]
fn attack(run: Run) {
    drop(run);
}

fn main() {}
