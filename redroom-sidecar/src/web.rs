//! The fake web: answers as every host on every address, over TLS or not, HTTP/1.1 and HTTP/2. Every request is a hit,
//! reported before its answer is chosen.

mod host;
mod tls;
mod visit;

use std::sync::Arc;
use std::time::Duration;

use crate::conversation::{self, Manner, Party};
use crate::door::Connection;
use crate::slot::Slot;
use crate::witness::{Pulse, Witness};

pub(crate) use visit::{answer, octets, search_head};

/// The web answers at once, so that whoever says nothing for so long has nothing to say.
const SILENCE: Duration = Duration::from_secs(60);

const MANNER: Manner = Manner { http2: true, half_close: true, head_patience: SILENCE, silence: Some(SILENCE) };

/// First byte of a TLS handshake record.
const TLS: u8 = 0x16;

/// Serves one connection of whichever port. Whether it speaks TLS is decided by its first byte, so that `http` to port 443
/// is read, too.
pub(crate) async fn serve(slot: Arc<Slot>, connection: Connection) {
    let Connection { stream, meant, tenant, place: _place } = connection;
    let pulse = Pulse::new();
    let mut first = [0];
    tokio::select! {
        _ = stream.peek(&mut first) => {}
        () = pulse.stopped(SILENCE) => {}
        () = tenant.cut.cancelled() => {}
    }
    let _ = stream.set_nodelay(true);
    let raw = Witness::new(stream, pulse);
    if first != [TLS] {
        raw.memory().watch(tenant.secrets());
        let party = Party::new(slot, tenant, meant, None, raw.memory().clone());
        return conversation::hold(&party, raw, MANNER, visit::answer).await;
    }
    match tls::accept(&raw, &tenant, meant.ip(), SILENCE).await {
        Ok((stream, server_name)) => {
            let hello = tenant.secrets().search(&raw.memory().take());
            raw.memory().retire();
            let clear = Witness::new(stream, raw.pulse().clone());
            clear.memory().watch(tenant.secrets());
            let party = Party::new(slot, tenant, meant, Some(server_name), clear.memory().clone());
            party.suspect(hello);
            conversation::hold(&party, clear, MANNER, visit::answer).await;
        }
        Err(refused) => {
            let party = Party::new(slot, tenant, meant, Some(refused.server_name), raw.memory().clone());
            conversation::report_rest(&party, raw, refused.fault).await;
        }
    }
}
