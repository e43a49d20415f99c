use redroom::Run;

#[redroom::attack]
#[redroom::case("Please …")]
async fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
