//! Security regression tests for AI coding agents, as cargo tests.

#![forbid(unsafe_code)]

pub use redroom_harness::{
    Body, Error, File, Files, Page, Pages, Result, Run, RunOptions, Secret, Secrets, canary, dir, unplanted,
};
pub use redroom_macros::attack;

#[doc(hidden)]
pub mod private {
    //! For generated code only.

    pub use redroom_harness::inventory;
    pub use redroom_harness::registry::{BodyFuture, Ignore, Outcome, Registration, ShouldPanic};
}
