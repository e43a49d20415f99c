use redroom::Run;

#[redroom::attack(workspace = { "run.sh": { body: "", executeable: true } })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
