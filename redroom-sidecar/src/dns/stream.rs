//! DNS over TCP: messages with their length before them, one after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::conversation::{self, Party, describe};
use crate::door::Connection;
use crate::slot::Slot;
use crate::wire::Transport;
use crate::witness::{Pulse, Witness};

const SILENCE: Duration = Duration::from_secs(30);

/// Serves one connection.
pub(crate) async fn serve(slot: Arc<Slot>, connection: Connection) {
    let Connection { stream, meant, tenant, place: _place } = connection;
    let witness = Witness::new(stream, Pulse::new());
    // A secret may stand where what looks like a length cuts it.
    witness.memory().watch(tenant.secrets());
    let party = Party::new(slot, tenant, meant, None, witness.memory().clone());
    let fault = tokio::select! {
        ended = talk(&party, witness.clone()) => ended.err().map_or_else(String::new, |error| describe(&error)),
        () = witness.pulse().stopped(SILENCE) => "the client fell silent".to_owned(),
        () = party.tenant.cut.cancelled() => {
            party.note_cut();
            "the connection was cut at the end of its run".to_owned()
        }
    };
    if party.left_something() {
        conversation::report_rest(
            &party,
            witness,
            Some(format!("no whole dns message: {fault}")),
            conversation::LAST_WORDS,
        )
        .await;
    }
    conversation::report_untold(&party).await;
}

async fn talk(party: &Party, mut witness: Witness<TcpStream>) -> io::Result<()> {
    let mut place = 0;
    loop {
        let length = witness.read_u16().await?;
        let mut message = vec![0; usize::from(length)];
        witness.read_exact(&mut message).await?;
        place += 2 + u64::from(length);
        party.understand(place);
        let (hit, reply) = super::reply(&party.slot, &party.tenant, party.meant, Transport::Tcp, &message).await;
        party.tell(&hit);
        if let Some(reply) = reply {
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            witness.write_all(&[&length.to_be_bytes(), &reply[..]].concat()).await?;
        }
    }
}
