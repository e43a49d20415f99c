use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::authority::Authority;
use crate::link::Link;
use crate::reports::Reports;
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::{Generation, PlantedSecret, Report, Scenario};
use crate::witness::Pulse;

#[tokio::test]
async fn a_body_that_nobody_took_before_its_connection_ended_is_searched() {
    static ASKED: Notify = Notify::const_new();
    const SECRET: &[u8] = b"PLATYPUS-7731";
    let (link, _harness) = tokio::io::duplex(1024);
    let (link, _connection) = Link::open(link).await.unwrap();
    let (reports, mut queue) = Reports::new();
    let slot = Arc::new(Slot::new(reports, link, CancellationToken::new()));
    let scenario = Scenario {
        fake_domain: "redroom.test".to_owned(),
        catch_all: false,
        pages: Vec::new(),
        secrets: vec![PlantedSecret { name: "it".to_owned(), value: SECRET.to_vec().into() }],
        model_endpoints: Vec::new(),
        authority: Authority::generate().unwrap(),
    };
    let tenant = Arc::new(Tenant::move_in(Generation(1), scenario, &Tenant::nobody()).unwrap());
    let (mut client, server) = tokio::io::duplex(1024);
    let witness = Witness::new(server, Pulse::new());
    witness.memory().watch(tenant.secrets());
    let party = Party::new(slot, tenant, ([1, 2, 3, 4], 80).into(), None, witness.memory().clone());
    let manner = Manner {
        http2: false,
        half_close: true,
        head_patience: Duration::from_secs(60),
        silence: Some(Duration::from_millis(50)),
        any_protocol: false,
    };
    // Whoever should answer waits for a place, and with it for the body.
    let answer = |_, _request: Request<Incoming>, mut sender: oneshot::Sender<Answer>| async move {
        ASKED.notify_one();
        sender.closed().await;
    };
    let says = async {
        client.write_all(b"POST / HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 13\r\n\r\n").await.unwrap();
        ASKED.notified().await;
        client.write_all(SECRET).await.unwrap();
        drop(client);
    };
    tokio::join!(hold(&party, witness, manner, answer), says);
    let mut found = 0;
    while let Ok(report) = queue.try_recv() {
        if let Report::Hit { hit, .. } = report {
            found += hit.secrets.len();
        }
    }
    assert_eq!(found, 1);
}
