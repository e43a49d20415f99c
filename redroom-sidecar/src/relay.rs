//! The model relay: passes the agent's model requests to the harness, and what they are answered back, both as they come.
//!
//! The agent's credentials end here; the harness has the real ones. Only the endpoints that the run's agent needs are
//! passed on, but every request is searched whole, a refused one too.

pub(crate) mod call;
pub(crate) mod headers;

use std::sync::Arc;
use std::time::Duration;

use crate::conversation::{self, Manner, Party};
use crate::door::Connection;
use crate::slot::Slot;
use crate::witness::{Pulse, Witness};

/// A model may think for long, so that only a connection without a request may lie idle too long. An agent that has said
/// all and closed its half has left: the model need not go on.
const MANNER: Manner = Manner {
    http2: true,
    half_close: false,
    head_patience: Duration::from_secs(15 * 60),
    silence: None,
    any_protocol: false,
};

/// Serves one connection.
pub(crate) async fn serve(slot: Arc<Slot>, connection: Connection) {
    let Connection { stream, meant, tenant, place: _place } = connection;
    // An answer is streamed in small pieces that should not wait for each other.
    let _ = stream.set_nodelay(true);
    let witness = Witness::new(stream, Pulse::new());
    let party = Party::new(slot, tenant, meant, None, witness.memory().clone());
    conversation::hold(&party, witness, MANNER, call::answer).await;
}
