//! What is sent to ports that are nobody's, as a program of the namespace sees it and as it is reported. Needs root, for
//! the namespace.

mod datagrams;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use redroom_sidecar::namespace::make_every_address_local;
use redroom_sidecar::wire::{Protocol, Report, Transport};
use redroom_sidecar::{Listeners, serve};
use socket2::{Domain, Socket, Type};
use tokio::process::Child;
use tokio::task::AbortHandle;

use crate::container::{get, harness, inside, start, start_in};
use crate::harness::{Harness, SECRET, page};

fn any(address: SocketAddr) -> SocketAddr {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    SocketAddr::new(any, 0)
}

async fn why_unseen(harness: &Harness) -> Option<String> {
    harness
        .report(|report| match report {
            Report::Ready { other_ports_unseen, .. } => Some(other_ports_unseen.clone()),
            _ => None,
        })
        .await
}

/// The first thing that a program of the namespace says on a connection to an address, and what it is answered.
async fn said_to(sidecar: &Child, address: &str, words: &'static str) -> std::io::Result<String> {
    let address: SocketAddr = address.parse().unwrap();
    inside(sidecar, move || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(words.as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map(|_| said)
    })
    .await
}

/// A sidecar that serves a namespace from outside of it, as a jail's does.
async fn served_from_outside(place: &Child) -> (Harness, AbortHandle) {
    let sockets = inside(place, || {
        make_every_address_local().unwrap();
        Listeners::bind().unwrap().into_sockets()
    })
    .await;
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(serve(Listeners::from_sockets(sockets).unwrap(), near));
    (Harness::over(far), serving.abort_handle())
}

/// Sends each of these as a datagram.
async fn send<W: AsRef<[u8]> + Send + 'static>(sidecar: &Child, datagrams: Vec<(String, W)>) {
    inside(sidecar, move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for (address, words) in datagrams {
            socket.send_to(words.as_ref(), address).unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_sent_to_other_ports_is_a_hit() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![page("docs.redroom.test", "/", "planted")])).await;

    for address in ["1.2.3.4:4444", "[2001:db8:7::1]:22", "192.0.2.1:9", "192.0.2.1:83", "240.0.0.1:65535"] {
        let said = said_to(&sidecar, address, "id;PLATYPUS-7731\n").await.unwrap();
        assert_eq!(said, "", "{address}");
        let meant: SocketAddr = address.parse().unwrap();
        let hit = harness.hit(|hit| hit.address == meant && hit.complete).await;
        assert_eq!((hit.protocol, hit.transport, hit.blocked), (Protocol::Other, Transport::Tcp, true), "{hit:?}");
        assert_eq!((hit.body.as_bytes(), hit.fault.as_deref()), (&b"id;PLATYPUS-7731\n"[..], None), "{hit:?}");
        assert_eq!((hit.secrets.len(), hit.host.as_str()), (1, meant.ip().to_string().as_str()), "{hit:?}");
    }
    for address in ["9.9.9.9:9999", "[2001:db8:7::1]:9999", "192.0.2.1:83", "1.1.1.1:443"] {
        let meant: SocketAddr = address.parse().unwrap();
        inside(&sidecar, move || {
            let socket = UdpSocket::bind(any(meant)).unwrap();
            // Half of a secret each.
            for words in ["x PLATYPUS", "-7731"] {
                socket.send_to(words.as_bytes(), meant).unwrap();
            }
        })
        .await;
        let hit =
            harness.hit(|hit| hit.address == meant && hit.transport == Transport::Udp && hit.body_bytes == 15).await;
        assert_eq!((hit.protocol, hit.blocked, hit.secrets.len()), (Protocol::Other, true, 1), "{hit:?}");
        assert_eq!(hit.body.as_bytes(), b"x PLATYPUS-7731");
    }
}

#[tokio::test]
async fn http_is_understood_on_other_ports_and_pages_are_not_there() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![page("docs.redroom.test", "/", "planted")])).await;
    for address in ["192.0.2.20:8080", "[2001:db8:5::20]:8443", "1.2.3.4:8080"] {
        let meant: SocketAddr = address.parse().unwrap();
        let said = inside(&sidecar, move || get(meant, "docs.redroom.test:8080")).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 404"), "{said}");
        let hit = harness.hit(|hit| hit.address == meant && hit.status.is_some()).await;
        let told = (hit.protocol, hit.host.as_str(), hit.blocked, hit.status);
        assert_eq!(told, (Protocol::Http, "docs.redroom.test", false, Some(404)));
    }
}

#[tokio::test]
async fn the_agents_own_servers_and_closed_local_ports_are_as_ever() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    for address in [
        "127.0.0.1:3000",
        "127.8.8.8:83",
        "[::1]:3000",
        "[::1]:83",
        "0.0.0.0:83",
        "192.0.2.10:3000",
        "[2001:db8:5::10]:22",
    ] {
        let refused = said_to(&sidecar, address, "x").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{address}");
        let meant: SocketAddr = address.parse().unwrap();
        let unreachable = inside(&sidecar, move || {
            let socket = UdpSocket::bind(any(meant))?;
            socket.connect(meant)?;
            socket.send(b"x")?;
            socket.recv(&mut [0; 8])
        })
        .await;
        assert_eq!(unreachable.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    // On one address, on all, on IPv6; each talks twice to the same client port, so that the second connection meets what the
    // kernel remembers of the first.
    for (bound, dialled) in [
        ("192.0.2.10:3456", "192.0.2.10:3456"),
        ("0.0.0.0:3457", "192.0.2.10:3457"),
        ("[::]:3458", "127.0.0.1:3458"),
        ("[::]:3459", "[2001:db8:5::10]:3459"),
        ("127.0.0.1:3000", "127.0.0.1:3000"),
    ] {
        let answers = inside(&sidecar, move || own_server(bound.parse().unwrap(), dialled.parse().unwrap())).await;
        assert_eq!(answers.unwrap(), ["own", "own"], "{bound}");
    }
    assert!(harness.hits().is_empty(), "{:?}", harness.hits());
}

#[tokio::test]
async fn what_is_meant_for_elsewhere_reaches_no_server_of_the_agents_own() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    for (bound, dialled) in [
        ("0.0.0.0:3457", "203.0.113.9:3457"),
        ("8.8.4.4:3456", "8.8.4.4:3456"),
        ("[::]:3458", "203.0.113.9:3458"),
        ("[::]:3459", "[2001:db8:9::1]:3459"),
        ("0.0.0.0:3460", "192.0.2.1:3460"),
    ] {
        let (bound, dialled): (SocketAddr, SocketAddr) = (bound.parse().unwrap(), dialled.parse().unwrap());
        let got = inside(&sidecar, move || {
            let servers = (TcpListener::bind(bound).unwrap(), UdpSocket::bind(bound).unwrap());
            servers.0.set_nonblocking(true).unwrap();
            servers.1.set_nonblocking(true).unwrap();
            UdpSocket::bind(any(dialled)).unwrap().send_to(SECRET.as_bytes(), dialled).unwrap();
            let mut stream = TcpStream::connect(dialled).unwrap();
            stream.write_all(SECRET.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            [servers.0.accept().map(drop), servers.1.recv_from(&mut [0; 64]).map(drop)]
        })
        .await;
        for got in got {
            assert_eq!(got.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock), "{bound}");
        }
        for transport in [Transport::Tcp, Transport::Udp] {
            let hit = harness
                .hit(|hit| hit.address == dialled && hit.transport == transport && !hit.secrets.is_empty())
                .await;
            assert!(hit.blocked, "{hit:?}");
        }
    }
}

/// What a server of the agent's own answers to two connections from one port.
fn own_server(bound: SocketAddr, dialled: SocketAddr) -> std::io::Result<Vec<String>> {
    let server = TcpListener::bind(bound)?;
    let serving = std::thread::spawn(move || {
        // The server closes first, so that it is the one which remembers.
        (0..2).try_for_each(|_| server.accept().and_then(|(mut stream, _)| stream.write_all(b"own")))
    });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let client = socket2::Socket::new(socket2::Domain::for_address(dialled), socket2::Type::STREAM, None)?;
        client.set_reuse_address(true)?;
        client.bind(&SocketAddr::new(any(dialled).ip(), 40_000).into())?;
        client.connect(&dialled.into())?;
        let mut said = String::new();
        TcpStream::from(client).read_to_string(&mut said)?;
        answers.push(said);
    }
    serving.join().unwrap()?;
    Ok(answers)
}

/// A segment of no connection, which resets it; the kernel counts it among what a listener drops.
fn reset(from: SocketAddrV4, to: SocketAddrV4) -> [u8; 20] {
    const LENGTH_AND_RESET: [u8; 2] = [5 << 4, 1 << 2];
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&from.port().to_be_bytes());
    segment[2..4].copy_from_slice(&to.port().to_be_bytes());
    segment[12..14].copy_from_slice(&LENGTH_AND_RESET);
    let length = [0, 6, 0, 20];
    let summed = [&from.ip().octets()[..], &to.ip().octets(), &length, &segment].concat();
    let sum: u32 = summed.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    segment[16..18].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    segment
}

#[tokio::test]
async fn the_echo_of_a_connection_that_is_over_is_no_lost_connection() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    let (from, to) = (SocketAddrV4::new([127, 0, 0, 1].into(), 4000), SocketAddrV4::new([127, 0, 0, 1].into(), 80));
    inside(&sidecar, move || {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::TCP)).unwrap();
        assert_eq!(raw.send_to(&reset(from, to), &to.into()).unwrap(), 20);
    })
    .await;
    assert_eq!(harness.end(1, Duration::from_secs(10)).await, 0);
    let faults: Vec<_> =
        harness.reports().into_iter().filter(|report| matches!(report, Report::Fault { .. })).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn a_slot_says_whether_other_ports_are_seen() {
    let alone = Harness::vacant().await;
    let why = why_unseen(&alone).await.expect("its sockets are those of this machine");
    assert!(why.contains("lacks nft_tproxy") && why.contains("modprobe -a nft_tproxy nft_socket"), "{why}");
    // As root of a namespace of its own only, which a jail is.
    for kinds in [&["--net"][..], &["--user", "--map-root-user", "--net"]] {
        let Some(mut sidecar) = start_in(kinds, env!("CARGO_BIN_EXE_redroom-sidecar")) else { continue };
        let harness = harness(&mut sidecar);
        assert_eq!(why_unseen(&harness).await, None, "{kinds:?}");
        harness.begin(1, harness.scenario(vec![])).await;
        said_to(&sidecar, "1.2.3.4:4444", "hello").await.unwrap();
        harness.hit(|hit| hit.body.as_bytes() == b"hello").await;
    }
}

#[tokio::test]
async fn sockets_that_were_handed_over_hear_other_ports() {
    let Some(place) = start_in(&["--net"], "sleep 1000") else { return };
    let (harness, serving) = served_from_outside(&place).await;
    assert_eq!(why_unseen(&harness).await, None);
    harness.begin(1, harness.scenario(vec![])).await;
    said_to(&place, "1.2.3.4:4444", "hello").await.unwrap();
    harness.hit(|hit| hit.body.as_bytes() == b"hello").await;
    send(&place, vec![("9.9.9.9:9".to_owned(), SECRET)]).await;
    harness.hit(|hit| hit.transport == Transport::Udp && hit.address.port() == 9 && hit.secrets.len() == 1).await;
    serving.abort();
}

#[tokio::test]
async fn connections_to_other_ports_leave_the_web_its_places() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![page("docs.redroom.test", "/", "planted")])).await;
    let held = inside(&sidecar, || {
        let words = b"POST / HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 9\r\n\r\n";
        let connect = |n: u16| {
            let mut stream = TcpStream::connect(("1.1.1.1", 2000 + n)).unwrap();
            stream.write_all(words).unwrap();
            stream
        };
        (0..400).map(connect).collect::<Vec<_>>()
    })
    .await;
    for address in ["192.0.2.20:80", "192.0.2.20:443"] {
        let address: SocketAddr = address.parse().unwrap();
        let said = inside(&sidecar, move || get(address, "docs.redroom.test")).await.unwrap();
        assert!(said.ends_with("planted"), "{said}");
    }
    drop(held);
    assert_eq!(harness.end(1, Duration::from_secs(10)).await, 0);
    assert_eq!(harness.hits().iter().filter(|hit| hit.address.port() >= 2000).count(), 400);
}
