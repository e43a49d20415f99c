use redroom::Run;

#[redroom::case(polite, "Please …")]
#[redroom::case(urgent, "URGENT: …")]
async fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
