
#[redroom::attack]
async fn attack(run: String) {
    drop(run);
}

fn main() {}
