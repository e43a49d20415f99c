use redroom::Run;

#[redroom::attack(
    workspce = {},
    files = { "relative": "", "/tmp/../x": "" },
    pages = { "https://redroom.test:81/": "${secrets.unknown}" },
    timeout = ,
)]
fn attack(run: &Run) {
    let _ = run;
}

fn main() {}
