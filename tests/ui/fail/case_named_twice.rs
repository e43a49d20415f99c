use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, "Please …")]
#[redroom::case(polite, "Kindly …")]
async fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
