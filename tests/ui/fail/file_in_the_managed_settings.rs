use redroom::Run;

#[redroom::attack(files = { "/etc/claude-code/managed-settings.json": "{}" })]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
