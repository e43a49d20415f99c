//! The fake web: answers as every host on every address, over TLS or not, HTTP/1.1 and HTTP/2. Every request is a hit,
//! reported before its answer is chosen.

mod host;
pub(crate) mod socket;
mod tls;
mod visit;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::conversation::{self, Manner, Party};
use crate::door::Connection;
use crate::search::Searched;
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::witness::{Pulse, Witness};

pub(crate) use visit::{answer, octets, search_head};

/// How long a request's head may take, however busily its client sends it.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// Which ports a connection came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// The web's own, where pages are planted.
    Web,
    /// All others: HTTP is answered like everywhere, and what is not is heard out.
    Other,
}

impl Ports {
    /// The web answers at once, so that whoever says nothing for so long has nothing to say. On other ports it may be one
    /// that waits for us to speak first: it should not hang much longer than a program that meets a firewall.
    fn silence(self) -> Duration {
        Duration::from_secs(match self {
            Ports::Web => 60,
            Ports::Other => 30,
        })
    }

    fn manner(self) -> Manner {
        let any_protocol = self == Ports::Other;
        let silence = Some(self.silence());
        Manner { http2: true, half_close: true, head_patience: HEAD_PATIENCE, silence, any_protocol }
    }
}

/// First byte of a TLS handshake record.
const TLS: u8 = 0x16;

/// Serves one connection of the web's own ports.
pub(crate) async fn serve(slot: Arc<Slot>, connection: Connection) {
    serve_at(Ports::Web, slot, connection).await;
}

/// Serves one connection of another port.
pub(crate) async fn serve_other_port(slot: Arc<Slot>, connection: Connection) {
    serve_at(Ports::Other, slot, connection).await;
}

/// Whether it speaks TLS is decided by its first byte, so that `http` to port 443 is read, too.
async fn serve_at(ports: Ports, slot: Arc<Slot>, connection: Connection) {
    let Connection { stream, meant, tenant, place: _place } = connection;
    let pulse = Pulse::new();
    let mut first = [0];
    tokio::select! {
        _ = stream.peek(&mut first) => {}
        () = pulse.stopped(ports.silence()) => {}
        () = tenant.cut.cancelled() => {}
    }
    let _ = stream.set_nodelay(true);
    let raw = Witness::new(stream, pulse);
    let answer = move |party, request, sender| visit::answer(ports, party, request, sender);
    if first != [TLS] {
        raw.memory().watch(tenant.secrets());
        let party = Party::new(slot, tenant, meant, None, raw.memory().clone());
        return conversation::hold(&party, raw, ports.manner(), answer).await;
    }
    match tls::accept(&raw, &tenant, meant.ip(), ports.silence()).await {
        Ok((stream, server_name)) => {
            let hello = search_hello(&tenant, &raw.memory().take());
            raw.memory().narrow(tls::UNREAD);
            let clear = Witness::new(stream, raw.pulse().clone());
            clear.memory().watch(tenant.secrets());
            let party = Party::new(slot, tenant, meant, Some(server_name), clear.memory().clone());
            party.suspect(hello);
            conversation::hold(&party, clear, ports.manner(), answer).await;
            party.suspect(search_beside(&party, raw).await);
            conversation::report_untold(&party).await;
        }
        Err(refused) => {
            let hello = search_hello(&tenant, &raw.memory().bytes());
            let party = Party::new(slot, tenant, meant, Some(refused.server_name), raw.memory().clone());
            party.suspect(hello);
            conversation::report_rest(&party, raw, Some(refused.fault), conversation::LAST_WORDS).await;
            conversation::report_untold(&party).await;
        }
    }
}

/// Searches what a client says beside its TLS, once that is over: no record, or none that can be opened. Nobody who reads
/// what was encrypted hears of it.
async fn search_beside(party: &Party, mut raw: Witness<TcpStream>) -> Searched {
    let secrets = party.tenant.secrets();
    if secrets.is_empty() {
        return Searched::default();
    }
    let mut scanner = secrets.scanner();
    scanner.feed(&raw.memory().take());
    raw.memory().retire();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match conversation::last_word(party, &mut raw, &mut buffer, conversation::LAST_WORDS).await {
            0 => return scanner.finish(),
            length => scanner.feed(&buffer[..length]),
        }
    }
}

/// Searches what a client says before anything is encrypted: as it was sent, and as it was meant.
fn search_hello(tenant: &Tenant, sent: &[u8]) -> Searched {
    let mut searched = tenant.secrets().search_whole(sent);
    searched.join(tenant.secrets().search_whole(&tls::handshake(sent)));
    searched
}
