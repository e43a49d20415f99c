//! nmap over everything that the agent can address: what is open is the sidecar's, each probe is a hit, and nothing of the machine
//! is ever heard.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use redroom::{Limits, Redroom, Result, RunOptions};

use crate::beside::Neighbour;
use crate::{host, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("scans::of_the_loopback_only_the_ports_of_the_internet_are_open", &["nmap"], loopback),
        trial("scans::every_port_of_an_address_is_the_sidecars_and_every_probe_a_hit", &["nmap"], every_port),
        trial("scans::every_address_is_the_sidecars_and_no_word_of_the_machine_is_heard", &["nmap"], every_address),
        trial("scans::what_wants_raw_sockets_is_refused", &["nmap"], raw),
    ]
}

/// How nmap looks here: no name is looked up, nobody is pinged first, every port is connected to. On a busy machine an answer may
/// take a while.
const SCAN: &str = "nmap -n -Pn -sT -T4 --initial-rtt-timeout 5s --max-rtt-timeout 20s --max-retries 4 -oG -";
/// What the fake internet listens on, wherever it is looked for.
const INTERNET: [u16; 3] = [53, 80, 443];

/// The open ports of each address, out of nmap's output for grep.
fn open(output: &str) -> BTreeMap<IpAddr, BTreeSet<u16>> {
    let mut open: BTreeMap<IpAddr, BTreeSet<u16>> = BTreeMap::new();
    for line in output.lines().filter_map(|line| line.strip_prefix("Host: ")) {
        let address = line.split_whitespace().next().and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {line}"));
        let ports = line.split_once("Ports: ").map_or("", |(_, ports)| ports);
        let ports = ports.split(", ").filter(|port| port.contains("/open/"));
        open.entry(address)
            .or_default()
            .extend(ports.filter_map(|port| port.split('/').next()?.trim().parse::<u16>().ok()));
    }
    open
}

async fn loopback(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("loopback")).await?;
    // Beside servers of its own, there is nothing there.
    let script = format!(
        "(python3 -m http.server --bind 127.0.0.1 5000 >/dev/null 2>&1 &)
         until bash -c 'echo >/dev/tcp/127.0.0.1/5000' 2>/dev/null; do sleep 0.1; done
         {SCAN} -p- 127.0.0.1 127.1.2.3 192.0.2.10 && {SCAN} -6 -p- ::1 2001:db8:5::10"
    );
    let turn = run.send(script).await?;
    assert_eq!((turn.exit_code, turn.stderr.as_str()), (Some(0), ""), "{}", turn.final_text);
    let seen = open(&turn.final_text);
    assert_eq!(seen.len(), 5, "{}", turn.final_text);
    for (address, ports) in seen {
        let own = (address == Ipv4Addr::LOCALHOST).then_some(5000);
        assert_eq!(ports, INTERNET.into_iter().chain(own).collect(), "{address}");
    }
    run.finish().await?;
    Ok(())
}

async fn every_port(redroom: Arc<Redroom>) -> Result<()> {
    let options = RunOptions::new().name("ports").limits(Limits::new().turn_timeout(Duration::from_secs(500)));
    let (run, neighbour) = tokio::join!(redroom.start_run(options), Neighbour::start(&redroom));
    let (run, neighbour) = (run?, neighbour?);
    let (sent, beside) = neighbour.beside(&redroom, run.send(format!("{SCAN} -p- 192.0.2.1"))).await?;
    let turn = sent?;
    assert_eq!((turn.exit_code, turn.stderr.as_str()), (Some(0), ""));
    // More than is kept of what a script prints, so that both ends are there.
    assert!(turn.final_text.contains("1/open/tcp//") && turn.final_text.contains("65535/open/tcp//"), "{turn:?}");
    let closed = ["/closed/", "/filtered/"].iter().find(|state| turn.final_text.contains(**state));
    assert_eq!((closed, turn.final_text.contains("Ignored State")), (None, false), "{turn:?}");
    beside.assert_unnoticed();
    let result = run.finish().await?;
    let highest = result.hits.iter().map(|hit| hit.id).max().unwrap_or_default();
    // What its client reset before there was room in the kernel's queue is no hit, but told.
    let lost: u64 = result.errors.iter().filter_map(times_without_room).sum();
    println!("{highest} hits, {lost} times without room");
    // Relay and hook are no part of the internet.
    assert!(highest + lost >= 65_533, "{highest} and {lost}");
    assert!(result.errors.iter().any(|error| error.code() == "entries_dropped"), "{:?}", result.errors);
    let told = |error: &redroom::Error| ["entries_dropped", "connections_lost"].contains(&error.code());
    assert!(result.errors.iter().all(told), "{:?}", result.errors);
    neighbour.finish().await
}

fn times_without_room(error: &redroom::Error) -> Option<u64> {
    (error.code() == "connections_lost").then_some(())?;
    error.detail().split_once(" times ")?.0.parse().ok()
}

/// Listeners on every address of this machine that say who they are, and remember whether somebody came.
struct Machine {
    ports: Vec<u16>,
    came: Arc<AtomicBool>,
}

impl Machine {
    const BANNER: &str = "this machine's own";

    fn listen() -> std::io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        let mut ports = Vec::new();
        let bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0));
        // A machine may have no IPv6.
        for listener in [bound?].into_iter().chain(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))) {
            ports.push(listener.local_addr()?.port());
            let came = came.clone();
            // Ends with this process.
            thread::spawn(move || {
                listener.incoming().flatten().for_each(|mut stream| {
                    came.store(true, Ordering::SeqCst);
                    let _ = stream.write_all(Machine::BANNER.as_bytes());
                });
            });
        }
        Ok(Machine { ports, came })
    }

    fn was_reached(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }
}

async fn every_address(redroom: Arc<Redroom>) -> Result<()> {
    const ELSEWHERE: [&str; 14] = [
        "0.1.2.3",
        "1.1.1.1",
        "8.8.8.8",
        "10.0.0.1",
        "10.255.255.254",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.2.20",
        "192.168.0.1",
        "192.168.1.254",
        "2001:4860:4860::8888",
        "fd00:ec2::254",
        "64:ff9b::808:808",
    ];
    let machine = Machine::listen().unwrap();
    let named: BTreeSet<String> =
        ELSEWHERE.iter().map(|address| (*address).to_owned()).chain(host::addresses()).collect();
    let addresses: BTreeSet<IpAddr> =
        named.iter().filter_map(|address| address.parse().ok()).filter(is_routed).collect();
    let ports: BTreeSet<u16> = [22, 25, 53, 80, 443, 2375, 2376, 3306, 6443, 8080, 10250]
        .into_iter()
        .chain(machine.ports.iter().copied())
        .collect();
    let list = |items: Vec<String>, by: &str| items.join(by);
    let all_ports = list(ports.iter().map(u16::to_string).collect(), ",");
    let of = |family: fn(&IpAddr) -> bool| {
        list(addresses.iter().filter(|ip| family(ip)).map(IpAddr::to_string).collect(), " ")
    };
    // What a listener would say to whoever comes, for a second.
    let listen = r#"
import socket, sys
for address in sys.argv[1].split():
    for port in sys.argv[2].split(","):
        try:
            with socket.create_connection((address, int(port)), 1) as s: print(address, port, s.recv(100))
        except OSError: pass
"#;
    let (v4, v6) = (of(IpAddr::is_ipv4), of(IpAddr::is_ipv6));
    let script = format!("{SCAN} -p {all_ports} {v4} && {SCAN} -6 -p {all_ports} {v6}");
    let ports_here = list(machine.ports.iter().map(u16::to_string).collect(), ",");
    let hear = format!("python3 - '{v4} {v6}' {ports_here},22 <<'END'{listen}END");

    let run = redroom.start_run(RunOptions::new().name("addresses")).await?;
    let scan = run.send(script).await?;
    assert_eq!((scan.exit_code, scan.stderr.as_str()), (Some(0), ""), "{}", scan.final_text);
    let heard = run.send(hear).await?;
    assert_eq!((heard.exit_code, heard.final_text.as_str()), (Some(0), ""), "{}", heard.stderr);
    assert!(!machine.was_reached(), "the agent reached a listener of the machine");
    let result = run.finish().await?;

    let open = open(&scan.final_text);
    assert_eq!(open.keys().copied().collect::<BTreeSet<_>>(), addresses);
    let hits: BTreeSet<SocketAddr> = result.hits.iter().map(|hit| hit.address).collect();
    for (address, seen) in open {
        let expected = if address.is_loopback() { INTERNET.into() } else { ports.clone() };
        assert_eq!(seen, expected, "{address}");
        // A connection to a name server that asks nothing is none of the look-ups.
        let unheard = expected.iter().filter(|port| **port != 53 && !hits.contains(&(address, **port).into()));
        assert_eq!(unheard.count(), 0, "{address}: {:?}", result.hits);
    }
    // The control: whoever gets through is heard, and hears.
    let mut heard = String::new();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, machine.ports[0])).unwrap();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!((heard.as_str(), machine.was_reached()), (Machine::BANNER, true));
    Ok(())
}

/// Whether the kernel sends anything there without being told through which interface.
fn is_routed(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

async fn raw(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("raw")).await?;
    const ROOT: &str = "requires root privileges";
    const DENIED: &str = "Operation not permitted";
    for (way, words) in [
        ("-Pn -sU -p 53", ROOT),
        ("-Pn -sS -p 53", ROOT),
        ("-Pn -sO", ROOT),
        ("-Pn -O -p 53", ROOT),
        // Who believes that he is root is told by the kernel.
        ("--privileged -Pn -sS -p 53", DENIED),
        ("--privileged -Pn -sU -p 53", DENIED),
    ] {
        let turn = run.send(format!("nmap -n {way} 8.8.8.8 2>&1")).await?;
        assert!(turn.exit_code != Some(0) && turn.final_text.contains(words), "{way}: {turn:?}");
    }
    let result = run.finish().await?;
    assert_eq!((result.hits.len(), result.errors.as_slice()), (0, &[][..]), "{:?}", result.hits);
    Ok(())
}
