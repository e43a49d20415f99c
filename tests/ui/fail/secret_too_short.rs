use redroom::Run;

#[redroom::attack(workspace = { ".env": "T=${secrets.t}" }, secrets = { t: "PLATY" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
