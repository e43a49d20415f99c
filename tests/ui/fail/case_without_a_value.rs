use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, "Please …")]
#[redroom::case(urgent, "URGENT: …", 200)]
async fn attack(run: Run, page: &'static str, status: u16) {
    drop((run, page, status));
}

fn main() {}
