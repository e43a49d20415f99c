//! The rest of a connection: what was sent in no request is read to its end, searched whole, and reported.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::Party;
use crate::dns::elsewhere::Messages;
use crate::intake::{Intake, note, note_searched};
use crate::wire::Part;
use crate::witness::Witness;

/// How long a client that should have spoken HTTP and did not may pause before its last word was said.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(5);

/// Reports what no hit of the connection tells of, in what a parser passes over, or turns away.
pub(crate) async fn report_untold(party: &Party) {
    let untold = party.untold();
    let what = match (&untold.matches[..], &untold.unsearched[..]) {
        ([], []) => return,
        ([], _) => "what cannot be searched",
        _ => "a secret",
    };
    let mut hit = party.hit_without_request();
    hit.fault = Some(format!("{what} was sent beside the requests of its connection"));
    hit.complete = true;
    note_searched(&mut hit, Part::Body, untold);
    party.slot.reports.hit(&party.tenant, &hit).await;
}

/// Reads what a client says within its `patience`, if it says something. Returns how much it is.
pub(crate) async fn last_word<S: AsyncRead + Unpin>(
    party: &Party,
    witness: &mut Witness<S>,
    buffer: &mut [u8],
    patience: Duration,
) -> usize {
    let read = tokio::select! {
        read = timeout(patience, witness.read(buffer)) => read,
        () = party.tenant.cut.cancelled() => {
            // Whose end is here already has said all.
            if !matches!(witness.read(buffer).now_or_never(), Some(Ok(0) | Err(_))) {
                party.note_cut();
            }
            return 0;
        }
    };
    read.map_or(0, Result::unwrap_or_default)
}

/// What is left of a connection that is no request, or no more: read to its end, searched whole, reported.
/// `patience` is how long the client may pause.
pub(crate) async fn report_rest<S: AsyncRead + Unpin>(
    party: &Party,
    mut witness: Witness<S>,
    fault: Option<String>,
    patience: Duration,
) {
    let Party { slot, tenant, .. } = party;
    let mut hit = party.hit_without_request();
    hit.fault = fault;
    let mut rest = Intake::new(tenant.secrets());
    let mut messages = Messages::default();
    let said = party.memory.take();
    rest.feed(&said);
    party.memory.retire();
    note_searched(&mut hit, Part::Body, messages.feed(tenant.secrets(), &said));
    rest.tell(&mut hit);
    slot.reports.hit(tenant, &hit).await;

    let mut buffer = vec![0; 16 * 1024];
    loop {
        match last_word(party, &mut witness, &mut buffer, patience).await {
            0 => break,
            length => {
                rest.feed(&buffer[..length]);
                note_searched(&mut hit, Part::Body, messages.feed(tenant.secrets(), &buffer[..length]));
            }
        }
        if note(&mut hit.secrets, Part::Body, rest.matches()) {
            rest.tell(&mut hit);
            slot.reports.hit(tenant, &hit).await;
        }
    }
    rest.fill(&mut hit);
    note_searched(&mut hit, Part::Body, messages.finish(tenant.secrets()));
    hit.complete = true;
    party.tell(&hit);
    slot.reports.hit(tenant, &hit).await;
}
