//! DNS on every address, over UDP and TCP: names of the fake domain resolve to the fake web, nothing else does, and every
//! look-up is a hit with its name as it was sent.

pub(crate) mod datagrams;
pub(crate) mod elsewhere;
pub(crate) mod lookup;
pub(crate) mod stream;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::dns::lookup::Lookup;
use crate::intake::{Intake, note_address, note_searched};
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::{DnsQuestion, Hit, Part, Protocol, Transport};

/// What every name of the fake domain resolves to. Any address would arrive; these belong to documentation.
pub(crate) const FAKE_WEB: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 20)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x20))];

/// How much of a message is kept.
const KEPT: usize = 4096;

/// Reports a message, then gives its hit, and the reply to it, if it gets one.
async fn reply(
    slot: &Slot,
    tenant: &Tenant,
    meant: SocketAddr,
    transport: Transport,
    message: &[u8],
) -> (Hit, Option<Vec<u8>>) {
    let mut hit = match Lookup::parse(message) {
        Some(lookup) => look_up(tenant, meant, transport, message, &lookup),
        None => other(tenant, meant, message),
    };
    hit.transport = transport;
    slot.reports.hit(tenant, &hit).await;
    let exists = |labels: &[Vec<u8>]| tenant.catches_all() || tenant.owns_labels(labels);
    (hit, lookup::reply(message, transport == Transport::Udp, exists))
}

fn look_up(tenant: &Tenant, meant: SocketAddr, transport: Transport, message: &[u8], lookup: &Lookup) -> Hit {
    let blocked = !tenant.owns_labels(&lookup.labels);
    let host = lookup.host();
    let mut hit = Hit::new(tenant.next_hit(), tenant.age_ms(), Protocol::Dns, host, meant, blocked);
    let kept = message[..message.len().min(KEPT)].to_vec();
    hit.dns = Some(DnsQuestion::new(lookup.name(), lookup.kind(), transport == Transport::Tcp, kept.into()));
    hit.truncated = message.len() > KEPT;
    hit.complete = true;
    let secrets = tenant.secrets();
    note_searched(&mut hit, Part::Host, secrets.search_name(&lookup.labels));
    note_address(&mut hit.secrets, secrets, meant.ip());
    // The name lies in the message, too: there it is told only where it wears another disguise, or is no name.
    let mut rest = secrets.search_whole(message);
    lookup::other_names(message).into_iter().for_each(|name| rest.join(secrets.search_name(&name)));
    rest.matches.retain(|found| {
        !hit.secrets.iter().any(|known| known.secret == *found.secret && known.encoding == found.encoding)
    });
    note_searched(&mut hit, Part::Body, rest);
    hit
}

/// A message without a question that can be read.
fn other(tenant: &Tenant, meant: SocketAddr, message: &[u8]) -> Hit {
    let host = meant.ip().to_canonical().to_string();
    let mut hit = Hit::new(tenant.next_hit(), tenant.age_ms(), Protocol::Other, host, meant, true);
    let mut intake = Intake::new(tenant.secrets());
    intake.feed(message);
    intake.fill(&mut hit);
    note_searched(&mut hit, Part::Body, elsewhere::search_message(tenant.secrets(), message));
    note_address(&mut hit.secrets, tenant.secrets(), meant.ip());
    hit.fault = Some("a dns message without a question that can be read".to_owned());
    hit.complete = true;
    hit
}
