use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, ("Please …", 200))]
async fn attack(run: Run, (page, status): (&'static str, u16)) {
    drop((run, page, status));
}

fn main() {}
