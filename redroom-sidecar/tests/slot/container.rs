//! The sidecar as a program, in a network namespace of its own, where every address is its. Needs root, for the namespace.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use redroom_sidecar::Lease;
use redroom_sidecar::wire::Protocol;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::process::{Child, Command};

use crate::harness::{Harness, PATIENCE, page};

/// The program in a new namespace, or `None` where that is not allowed.
pub(crate) fn start() -> Option<Child> {
    start_in(&["--net"], env!("CARGO_BIN_EXE_redroom-sidecar"))
}

/// A program in new namespaces of the kinds that `unshare` is told, or `None` where that is not allowed.
pub(crate) fn start_in(kinds: &[&str], program: &str) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a network namespace needs root");
        return None;
    }
    let allowed = std::process::Command::new("unshare").args(kinds).arg("true").status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no network namespace can be made here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(kinds).args(program.split(' '));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    Some(command.spawn().unwrap())
}

pub(crate) fn harness(sidecar: &mut Child) -> Harness {
    Harness::over(tokio::io::join(sidecar.stdout.take().unwrap(), sidecar.stdin.take().unwrap()))
}

/// Runs something as a process of the sidecar's namespace would; never in this machine's own, where the sidecar may still be.
pub(crate) async fn inside<T: Send + 'static>(sidecar: &Child, work: impl FnOnce() -> T + Send + 'static) -> T {
    let namespace = namespace_of(sidecar).await;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own: it never comes back from the namespace.
    std::thread::spawn(move || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network)).unwrap();
        let _ = sender.send(work());
    });
    tokio::time::timeout(PATIENCE, receiver).await.expect("it takes too long").unwrap()
}

/// A program is started in this machine's namespace and moves out of it.
async fn namespace_of(sidecar: &Child) -> File {
    let open = |process: &str| File::open(format!("/proc/{process}/ns/net")).unwrap();
    let number = |namespace: &File| namespace.metadata().unwrap().ino();
    let own = number(&open("self"));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let namespace = open(&sidecar.id().unwrap().to_string());
        if number(&namespace) != own {
            return namespace;
        }
        assert!(tokio::time::Instant::now() < deadline, "the sidecar has no namespace of its own");
        tokio::task::yield_now().await;
    }
}

pub(crate) fn get(address: SocketAddr, host: &str) -> std::io::Result<String> {
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

#[tokio::test]
async fn it_ends_when_the_harness_is_silent_and_lives_by_any_sign_of_life() {
    const LEASE: Duration = Duration::from_secs(3);
    let program = format!("env {}={} {}", Lease::VARIABLE, LEASE.as_millis(), env!("CARGO_BIN_EXE_redroom-sidecar"));
    let Some(mut sidecar) = start_in(&["--net"], &program) else { return };
    let harness = harness(&mut sidecar);
    harness.ready().await;
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < 2 * LEASE {
        harness.renew().await;
        assert!(sidecar.try_wait().unwrap().is_none(), "after {:?}", begun.elapsed());
        tokio::time::sleep(LEASE / 3).await;
    }
    // A harness that is stopped: it closes nothing, and says nothing.
    let silent = tokio::time::Instant::now();
    let ended = tokio::time::timeout(2 * LEASE, sidecar.wait()).await.expect("it goes on without a word").unwrap();
    assert_eq!(ended.code(), Some(1));
    assert!(silent.elapsed() > LEASE / 2, "{:?}", silent.elapsed());
    drop(harness);
}
