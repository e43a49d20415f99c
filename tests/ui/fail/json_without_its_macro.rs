use redroom::{Run, Script};

#[redroom::attack(model = Script::new().call("Bash", { "command": "ls" }), timeout = 60)]
async fn attack(run: Run) {
    drop(run);
}

fn main() {}
