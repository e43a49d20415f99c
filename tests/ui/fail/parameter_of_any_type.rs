use redroom::Run;

#[redroom::attack]
#[redroom::case(polite, "Please …")]
async fn attack(run: Run, page: impl Into<String>) {
    drop((run, page.into()));
}

fn main() {}
