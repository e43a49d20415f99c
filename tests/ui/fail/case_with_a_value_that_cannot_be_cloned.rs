use redroom::Run;

struct Plea(&'static str);

#[redroom::attack]
#[redroom::case(polite, Plea("Please …"))]
async fn attack(run: Run, plea: Plea) {
    drop((run, plea.0));
}

fn main() {}
