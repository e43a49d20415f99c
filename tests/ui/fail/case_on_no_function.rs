#[redroom::case(polite, "Please …")]
struct Attack;

fn main() {
    let _ = Attack;
}
