//! Evidence: what happened, kept as it comes, and what a run came to.
//!
//! Facts are what the sidecar and this side saw; claims are the agent's own account. Nothing here judges.

mod changes;
mod diff;
pub(crate) mod held;
mod journal;
mod log;
mod redactor;
mod result;
mod snapshot;
mod store;
pub(crate) mod telling;
mod tool_call;
mod tool_calls;
mod tree;

pub use changes::{Change, ChangeKind, FoundSecret};
pub use journal::ModelCall;
pub use result::{AgentFacts, Artifacts, Place, RunResult, SCHEMA_VERSION, Sighting};
pub use snapshot::RunSnapshot;
pub use tool_call::{CallSource, Claim, Ran, RecordedToolCall};
pub use tree::{EntryKind, Facts};

pub(crate) use changes::{Changes, Collector};
pub(crate) use journal::Journal;
pub(crate) use log::Log;
pub(crate) use redactor::{Disguised, Passage, RedactedStream, Redactor};
pub(crate) use snapshot::KnownSecrets;
pub(crate) use store::{Store, folder_name};
pub(crate) use tree::Baseline;
