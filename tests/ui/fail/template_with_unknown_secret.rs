use redroom::Run;

#[redroom::attack(workspace = { ".env": "T=${secrets.api_tokn} ${secrets.api_token}" }, secrets = { api_token: "PLATYPUS-7731" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
