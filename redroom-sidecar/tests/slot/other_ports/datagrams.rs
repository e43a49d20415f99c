//! Datagrams: each is a hit of its address and port, whatever it says, or cannot be sent.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use redroom_sidecar::search::Why;
use redroom_sidecar::wire::{Generation, Hit, Part, Report, Transport};

use super::{any, send, served_from_outside};
use crate::container::{harness, inside, start, start_in};
use crate::harness::{ENCRYPTED, SECRET};

#[tokio::test]
async fn datagrams_to_more_ports_than_can_be_followed_are_hits_all_the_same() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    let mut datagrams: Vec<_> = (2000..2200).map(|port| (format!("9.9.9.9:{port}"), "x")).collect();
    datagrams.push(("9.9.9.9:2199".to_owned(), SECRET));
    datagrams.push(("9.9.9.9:2000".to_owned(), SECRET));
    send(&sidecar, datagrams).await;
    assert_eq!(harness.end(1, Duration::from_secs(10)).await, 0);
    let hits = harness.hits();
    assert_eq!(hits.len(), 201, "one is forgotten when its port is met again");
    let leaking: Vec<(u16, u64)> =
        hits.iter().filter(|hit| !hit.secrets.is_empty()).map(|hit| (hit.address.port(), hit.body_bytes)).collect();
    assert_eq!(leaking, [(2199, 14), (2000, 13)]);
}

#[tokio::test]
async fn a_datagram_that_cannot_be_searched_is_told() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    // Behind a thousand letters in gzip, it could be their next block.
    let begun = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xaa\xa8\x18\x05\xa3\x60\x14\x0c\x77\0\0\0\0\xff\xff".to_vec();
    let encrypted = ENCRYPTED.as_bytes().to_vec();
    let datagrams = [("9.9.9.9:1", encrypted.clone()), ("9.9.9.9:2", begun), ("9.9.9.9:2", encrypted)];
    send(&sidecar, datagrams.map(|(address, words)| (address.to_owned(), words)).into()).await;
    for port in [1, 2] {
        let encrypted = |hit: &Hit| hit.unsearched.iter().any(|part| part.why == Why::Encrypted);
        let hit = harness.hit(|hit| hit.address.port() == port && encrypted(hit)).await;
        assert_eq!(hit.secrets, [], "{hit:?}");
    }
    // Cut in two, it is known for what it is at the end.
    let halves = [&ENCRYPTED[..4], &ENCRYPTED[4..]].map(|half| ("9.9.9.9:3".to_owned(), half.to_owned()));
    send(&sidecar, halves.into()).await;
    harness.hit(|hit| hit.address.port() == 3 && hit.body.as_bytes() == ENCRYPTED.as_bytes()).await;
    assert_eq!(harness.end(1, Duration::from_secs(10)).await, 0);
    let hits = harness.hits();
    let hit = hits.iter().find(|hit| hit.address.port() == 3).unwrap();
    assert_eq!(hit.unsearched.len(), 1, "{hit:?}");
}

#[tokio::test]
async fn datagrams_that_came_too_fast_to_be_read_are_told_as_lost() {
    // Served from outside of their namespace, as a jail's are: where nobody sees its tables.
    let Some(place) = start_in(&["--net"], "sleep 1000") else { return };
    let (harness, serving) = served_from_outside(&place).await;
    harness.ready().await;
    for (generation, (address, told_of)) in [(1, ("9.9.9.9:9", "other ports")), (2, ("9.9.9.9:53", "port 53"))] {
        harness.begin(generation, harness.scenario(vec![])).await;
        inside(&place, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            (0..5_000).for_each(|_| drop(socket.send_to(&[b'x'; 8_000], address)));
        })
        .await;
        harness.end(generation, Duration::from_secs(10)).await;
        let lost = harness
            .report(|report| match report {
                Report::Fault { generation: of, code, detail } if *of == Some(Generation(generation)) => {
                    Some((code.clone(), detail.clone()))
                }
                _ => None,
            })
            .await;
        assert_eq!(lost.0, "datagrams_lost");
        assert!(lost.1.contains(told_of), "{}", lost.1);
    }
    serving.abort();
}

#[tokio::test]
async fn a_protocol_that_nobody_would_hear_cannot_be_spoken() {
    const UDP_LITE: i32 = 136;
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    for address in ["9.9.9.9:9", "[2001:db8:7::1]:9", "192.0.2.20:443"] {
        let address: SocketAddr = address.parse().unwrap();
        let sent = inside(&sidecar, move || {
            let kind = (socket2::Domain::for_address(address), socket2::Type::DGRAM, socket2::Protocol::from(UDP_LITE));
            let socket = socket2::Socket::new(kind.0, kind.1, Some(kind.2)).ok()?;
            Some(socket.send_to(SECRET.as_bytes(), &address.into()).map_err(|error| error.kind()))
        })
        .await;
        match sent {
            None => eprintln!("skipped: this kernel has no UDP-Lite"),
            Some(sent) => assert_eq!(sent, Err(ErrorKind::PermissionDenied), "{address}"),
        }
    }
}

#[tokio::test]
async fn what_is_meant_for_a_group_cannot_be_sent() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    for address in ["224.0.0.251:5353", "239.255.255.250:1900", "232.1.2.3:53", "[ff02::fb]:5353", "[ff0e::1]:9"] {
        let meant: SocketAddr = address.parse().unwrap();
        let sent = inside(&sidecar, move || {
            let socket = UdpSocket::bind(any(meant)).unwrap();
            socket.send_to(SECRET.as_bytes(), meant).map_err(|error| error.kind())
        })
        .await;
        assert_eq!(sent, Err(ErrorKind::PermissionDenied), "{address}");
    }
    // The neighbours of these addresses are heard as ever.
    for address in ["223.255.255.255:9", "240.0.0.1:9", "255.255.255.255:9", "[feff::1]:9"] {
        let meant: SocketAddr = address.parse().unwrap();
        inside(&sidecar, move || {
            let socket = UdpSocket::bind(any(meant)).unwrap();
            socket.set_broadcast(true).unwrap();
            socket.send_to(SECRET.as_bytes(), meant).unwrap();
        })
        .await;
        harness.hit(|hit| hit.address == meant && hit.secrets.len() == 1).await;
    }
}

#[tokio::test]
async fn an_address_that_spells_a_secret_is_read_whatever_is_sent_there() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    let mut octets = [0x20, 1, 0xd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[3..].copy_from_slice(SECRET.as_bytes());
    let meant = SocketAddr::new(IpAddr::from(octets), 7000);
    inside(&sidecar, move || {
        UdpSocket::bind(any(meant)).unwrap().send_to(b"x", meant).unwrap();
        drop(TcpStream::connect(meant).unwrap());
    })
    .await;
    for transport in [Transport::Udp, Transport::Tcp] {
        let hit = harness.hit(|hit| hit.address == meant && hit.transport == transport).await;
        assert!(hit.secrets.iter().any(|found| found.part == Part::Host), "{hit:?}");
    }
}

#[tokio::test]
async fn a_secret_over_the_labels_of_a_name_is_found_in_datagrams_to_any_port() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    let asked = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x05PLATY\x08PUS-7731\x05local\0\0\x0c\0\x01";
    send(&sidecar, vec![("198.51.100.11:5353".to_owned(), asked)]).await;
    harness.hit(|hit| hit.address.port() == 5353 && hit.secrets.len() == 1).await;
}

#[tokio::test]
async fn a_datagram_belongs_to_the_run_in_which_it_came() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    let both = || vec![("9.9.9.9:9".to_owned(), "first"), ("9.9.9.9:9".to_owned(), "second")];
    harness.begin(1, harness.scenario(vec![])).await;
    send(&sidecar, both()).await;
    harness.end(1, Duration::from_secs(10)).await;
    send(&sidecar, vec![("9.9.9.9:9".to_owned(), "between")]).await;
    let (generation, _) = harness.attributed_hit(|hit| hit.body.as_bytes() == b"between").await;
    assert_eq!(generation, None);
    harness.begin(2, harness.scenario(vec![])).await;
    send(&sidecar, both()).await;
    harness.end(2, Duration::from_secs(10)).await;
    let told = |generation: Option<Generation>, body: &str| {
        let fits = |hit: &Hit| hit.body.as_bytes() == body.as_bytes();
        harness
            .reports()
            .iter()
            .any(|report| matches!(report, Report::Hit { generation: of, hit } if *of == generation && fits(hit)))
    };
    assert!(told(Some(Generation(1)), "firstsecond") && told(Some(Generation(2)), "firstsecond"));
}
