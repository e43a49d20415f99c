use redroom::Run;

#[redroom::attack(pages = { "ftp://docs.redroom.test/": page })]
#[redroom::case(polite, "Please …", ignore, ignore = "twice")]
#[redroom::case("urgent", "URGENT: …")]
#[redroom::case(polite, 1 +, 2)]
#[redroom::case(long, "Please …", 200)]
fn attack(run: Run, page: &'static str) {
    drop((run, page));
}

fn main() {}
