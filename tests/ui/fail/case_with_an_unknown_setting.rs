use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, "Please …", ignored = "not yet")]
async fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
