use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, "Please …", 404)]
async fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
