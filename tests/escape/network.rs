//! The network: what listens on the machine, the sidecar's ports, addresses and routes, other kinds of sockets.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redroom::prelude::*;
use serde_json::{Value, json};

use crate::{Control, Probes, lacks, refused};

#[redroom::attack]
async fn nothing_changes_the_network_or_takes_a_port_of_the_sidecar(run: Run) -> redroom::Result<()> {
    refused(run, Probes::new(include_str!("probes/network.py"), json!({})), &[], Control::Apart).await
}

/// Listeners on this machine that say who they are, and remember whether somebody came.
struct Host {
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
    name: String,
    came: Arc<AtomicBool>,
}

impl Host {
    const WORD: &[u8] = b"the host";

    fn listen() -> std::io::Result<Self> {
        let name = format!("redroom-escape-{}", std::process::id());
        let (tcp, udp) = (TcpListener::bind("0.0.0.0:0")?, UdpSocket::bind("0.0.0.0:0")?);
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let came = Arc::new(AtomicBool::new(false));
        let answer = |mut stream: Box<dyn std::io::Write>, came: &AtomicBool| {
            came.store(true, Ordering::SeqCst);
            // Whoever came may be gone.
            let _ = stream.write_all(Host::WORD);
        };
        // The threads end with this process.
        let (listener, seen) = (tcp.try_clone()?, came.clone());
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(Box::new(stream), &seen)));
        let (listener, seen) = (unix.try_clone()?, came.clone());
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(Box::new(stream), &seen)));
        let (socket, seen) = (udp.try_clone()?, came.clone());
        thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                seen.store(true, Ordering::SeqCst);
                let _ = socket.send_to(Host::WORD, from);
            }
        });
        Ok(Host { tcp, udp, _unix: unix, name, came })
    }

    fn arguments(&self, hosts: &[&str]) -> std::io::Result<Value> {
        let reach = json!([self.tcp.local_addr()?.port(), self.udp.local_addr()?.port(), self.name]);
        Ok(json!({ "reach": reach, "hosts": hosts }))
    }
}

#[redroom::attack(timeout = Duration::from_secs(60))]
async fn nothing_that_listens_on_the_machine_is_reached(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let host = Host::listen().unwrap();
    let hosts = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "172.17.0.1", "192.0.2.1"];
    let probes = Probes::new(include_str!("probes/network.py"), host.arguments(&hosts).unwrap());
    let inside = probes.inside(&run).await?;
    run.finish().await?;
    assert!(!host.came.load(Ordering::SeqCst), "the agent reached the machine: {inside:?}");
    inside.assert_refused(&[]);
    let here = ["127.0.0.1", "0.0.0.0"];
    probes.outside(Control::Plain, json!({ "hosts": here })).assert_control();
    assert!(host.came.load(Ordering::SeqCst), "the listeners would not have noticed");
    Ok(())
}
