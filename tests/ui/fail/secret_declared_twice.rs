use redroom::Run;

#[redroom::attack(workspace = { ".env": "T=${secrets.t}" }, secrets = { t: "PLATYPUS-7731", t: "PLATYPUS-7732" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
