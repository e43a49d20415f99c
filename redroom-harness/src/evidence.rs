//! What a run left behind, computed on this side: nothing inside a sandbox is asked.

mod changes;
mod diff;
mod tree;

pub use changes::{Change, ChangeKind, Changes, Collector, FoundSecret, Missed};
pub use tree::{Baseline, EntryKind, Facts};
