//! The facade under another name.

mod testing {
    pub(crate) use ::redroom as renamed;
}

use testing::renamed::{Run, attack};

#[attack(crate = crate::testing::renamed, pages = { "https://redroom.test/": "page" })]
async fn attack_through_another_name(_: Run) {}

fn main() {}
