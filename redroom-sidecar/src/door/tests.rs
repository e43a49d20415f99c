use std::net::Ipv4Addr;

use socket2::{Domain, Socket, Type};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::link::Link;
use crate::reports::Reports;
use crate::wire::Report;

/// What is told of those who knocked before a door is kept and then emptied: some at once, at a queue for two.
async fn told_of(knocking: usize) -> Vec<Report> {
    let (link, _harness) = tokio::io::duplex(1024);
    let (link, _connection) = Link::open(link).await.unwrap();
    let (reports, mut queue) = Reports::new();
    let slot = Arc::new(Slot::new(reports, link, CancellationToken::new()));
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(1).unwrap();
    let mut doors = Doors::default();
    let requests = doors.add();
    let listener: std::net::TcpListener = listener.into();
    let address = listener.local_addr().unwrap();
    let door = keep(listener, Arc::new(Semaphore::new(1)), requests, slot, async |_, _| {});
    let mut door = Box::pin(door);
    // Once round, so that it knows what its listener lost before.
    assert!(futures_util::poll!(&mut door).is_pending());
    let clients: Vec<Socket> = std::iter::repeat_with(|| {
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        let _ = client.connect(&address.into());
        client
    })
    .take(knocking)
    .collect();
    tokio::select! {
        () = doors.empty() => {}
        ended = &mut door => panic!("{ended:?}"),
    }
    drop(clients);
    std::iter::from_fn(|| queue.try_recv().ok()).collect()
}

#[tokio::test]
async fn connections_that_found_no_room_are_told() {
    let told = told_of(5).await;
    let [Report::Fault { code, detail, .. }] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(code, "connections_lost");
    let (times, place) = detail.split_once(" times a connection to port ").expect(detail);
    // Whoever is not let in tries again.
    assert!(times.parse::<u32>().is_ok_and(|times| times >= 3), "{times}");
    assert!(place.contains(" found no room "), "{place}");
}

#[tokio::test]
async fn a_queue_that_was_filled_to_its_last_place_lost_nothing() {
    let told = told_of(2).await;
    assert!(told.is_empty(), "{told:?}");
}
