use redroom::Run;

#[redroom::attack(model = script(), model_proxy = { base_url: "http://localhost:4000" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
