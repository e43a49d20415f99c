
#[redroom::attack]
async fn attack() {}

fn main() {}
