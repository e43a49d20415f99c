//! The sidecar as a program, in a network namespace of its own, where every address is its. Needs root, for the namespace.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use redroom_sidecar::wire::{Protocol, Transport};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::process::{Child, Command};

use crate::harness::{Harness, PATIENCE, page};

/// The program in a new namespace, or `None` where that is not allowed.
fn start() -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a network namespace needs root");
        return None;
    }
    let allowed = std::process::Command::new("unshare").args(["--net", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no network namespace can be made here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", env!("CARGO_BIN_EXE_redroom-sidecar")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    Some(command.spawn().unwrap())
}

fn harness(sidecar: &mut Child) -> Harness {
    Harness::over(tokio::io::join(sidecar.stdout.take().unwrap(), sidecar.stdin.take().unwrap()))
}

/// Runs something as a process of the sidecar's namespace would.
async fn inside<T: Send + 'static>(sidecar: &Child, work: impl FnOnce() -> T + Send + 'static) -> T {
    let namespace = File::open(format!("/proc/{}/ns/net", sidecar.id().unwrap())).unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own: it never comes back from the namespace.
    std::thread::spawn(move || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network)).unwrap();
        let _ = sender.send(work());
    });
    tokio::time::timeout(PATIENCE, receiver).await.expect("it takes too long").unwrap()
}

fn get(address: SocketAddr, host: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

#[tokio::test]
async fn every_address_is_the_fake_internet() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![page("docs.redroom.test", "/", "planted")])).await;

    for address in ["1.1.1.1:80", "169.254.169.254:80", "[2606:4700::1111]:443", "240.0.0.1:443", "192.0.2.20:80"] {
        let address: SocketAddr = address.parse().unwrap();
        let said = inside(&sidecar, move || get(address, "docs.redroom.test")).await.unwrap();
        assert!(said.ends_with("planted"), "{address}: {said}");
        harness.hit(|hit| hit.address == address && hit.protocol == Protocol::Http && hit.complete).await;
    }
    // A connected socket takes the reply from the address that it asked only.
    for address in ["8.8.8.8:53", "[2001:4860:4860::8888]:53", "192.0.2.10:53"] {
        let address: SocketAddr = address.parse().unwrap();
        let reply = inside(&sidecar, move || {
            let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            socket.connect(address)?;
            socket.send(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07redroom\x04test\0\0\x01\0\x01")?;
            let mut reply = [0; 512];
            socket.recv(&mut reply).map(|length| reply[..length].to_vec())
        })
        .await;
        let reply = reply.unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!(reply[..2], [0x12, 0x34]);
        assert!(reply.ends_with(&[192, 0, 2, 20]), "{reply:?}");
        harness.hit(|hit| hit.address == address && hit.dns.is_some()).await;
    }
    for address in ["192.0.2.1:81", "192.0.2.1:82"] {
        let said = inside(&sidecar, move || get(address.parse().unwrap(), "x")).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 40"), "{address}: {said}");
    }
}

#[tokio::test]
async fn its_ports_cannot_be_shared_and_its_privileges_are_gone() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    for address in ["0.0.0.0:80", "[::]:443", "192.0.2.1:81", "1.2.3.4:53"] {
        let taken = inside(&sidecar, move || TcpListener::bind(address)).await;
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse, "{address}");
    }
    let tasks = std::fs::read_dir(format!("/proc/{}/task", sidecar.id().unwrap())).unwrap();
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for set in ["CapEff:\t", "CapPrm:\t", "CapInh:\t"] {
            let value = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
            assert_eq!(value, "0000000000000000", "{set}");
        }
    }
}

#[tokio::test]
async fn it_ends_with_its_input_even_when_nobody_reads_its_output() {
    let Some(mut sidecar) = start() else { return };
    let (mut input, mut output) = (sidecar.stdin.take().unwrap(), sidecar.stdout.take().unwrap());
    let (near, far) = tokio::io::duplex(1024);
    let (mut from_harness, mut to_harness) = tokio::io::split(near);
    let forth = tokio::spawn(async move { tokio::io::copy(&mut from_harness, &mut input).await });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let back = tokio::spawn(async move {
        tokio::select! {
            _ = tokio::io::copy(&mut output, &mut to_harness) => {}
            _ = stopped => {}
        }
        output
    });
    let harness = Harness::over(far);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    stop.send(()).unwrap();
    let _unread = back.await.unwrap();

    // Reports pile up until an answer waits for room.
    let stuck = inside(&sidecar, || {
        let words = format!("POST / HTTP/1.1\r\nHost: x.redroom.test\r\nContent-Length: 60000\r\n\r\n{:60000}", "");
        let mut stream = TcpStream::connect("192.0.2.20:80").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        (0..10_000).any(|_| stream.write_all(words.as_bytes()).and_then(|()| stream.read(&mut [0; 512])).is_err())
    });
    assert!(stuck.await, "there is no end to the room for reports");
    forth.abort();
    tokio::time::timeout(PATIENCE, sidecar.wait()).await.expect("it goes on without input").unwrap();
}

#[tokio::test]
async fn it_ends_when_the_harness_vanishes() {
    let Some(mut sidecar) = start() else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    harness.begin(1, harness.scenario(vec![])).await;
    harness.vanish().await.unwrap();
    tokio::time::timeout(PATIENCE, sidecar.wait()).await.expect("it goes on without a harness").unwrap();
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
            let any: IpAddr = if meant.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
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
            let any: IpAddr = if meant.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(meant)?;
            socket.send(b"x")?;
            socket.recv(&mut [0; 8])
        })
        .await;
        assert_eq!(unreachable.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    // On one foreign address, on all, on IPv6; each talks twice to the same client port, so that the second connection meets
    // what the kernel remembers of the first.
    for (bound, dialled) in [
        ("8.8.4.4:3456", "8.8.4.4:3456"),
        ("0.0.0.0:3457", "203.0.113.9:3457"),
        ("[::]:3458", "203.0.113.9:3458"),
        ("[::]:3459", "[2001:db8:9::1]:3459"),
        ("127.0.0.1:3000", "127.0.0.1:3000"),
    ] {
        let answers = inside(&sidecar, move || own_server(bound.parse().unwrap(), dialled.parse().unwrap())).await;
        assert_eq!(answers.unwrap(), ["own", "own"], "{bound}");
    }
    assert!(harness.hits().is_empty(), "{:?}", harness.hits());
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
        let any: IpAddr = if dialled.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
        client.bind(&SocketAddr::new(any, 40_000).into())?;
        client.connect(&dialled.into())?;
        let mut said = String::new();
        TcpStream::from(client).read_to_string(&mut said)?;
        answers.push(said);
    }
    serving.join().unwrap()?;
    Ok(answers)
}
