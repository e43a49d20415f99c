
#[redroom::attack]
struct Attack;

fn main() {}
