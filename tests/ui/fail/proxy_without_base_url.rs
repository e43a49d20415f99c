use redroom::Run;

#[redroom::attack(model_proxy = { headers: { "x-api-key": "key" } })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
