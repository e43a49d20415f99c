use redroom::Run;

#[redroom::attack(tags = ["dns", "over https"])]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
