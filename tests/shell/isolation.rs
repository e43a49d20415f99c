//! What the agent's sandbox cannot do: reach anything but the sidecar, take its ports, see its processes, gain a right.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use redroom::prelude::*;

/// Listeners on every address of the host, for both families, over TCP and UDP.
struct Host {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
}

impl Host {
    fn listen() -> std::io::Result<Self> {
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let mut host = Host { tcp: vec![TcpListener::bind(v4)?], udp: vec![UdpSocket::bind(v4)?] };
        // A host may have no IPv6.
        host.tcp.extend(TcpListener::bind(v6));
        host.udp.extend(UdpSocket::bind(v6));
        host.tcp.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        host.udp.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        Ok(host)
    }

    fn ports(&self) -> std::io::Result<String> {
        let tcp = self.tcp.iter().map(TcpListener::local_addr);
        let udp = self.udp.iter().map(UdpSocket::local_addr);
        let ports: Result<Vec<String>, _> = tcp.chain(udp).map(|addr| Ok(addr?.port().to_string())).collect();
        ports.map(|ports| ports.join(" "))
    }

    /// Every address of the host, for the agent to try, and what engines call it.
    fn addresses() -> String {
        let names = ["host.docker.internal", "gateway.docker.internal"].map(str::to_owned);
        crate::host::addresses().into_iter().chain(names).collect::<Vec<_>>().join(" ")
    }

    /// Whether anybody came.
    fn was_reached(&self) -> bool {
        let tcp =
            self.tcp.iter().any(|listener| !matches!(listener.accept(), Err(e) if e.kind() == ErrorKind::WouldBlock));
        let mut buffer = [0; 64];
        let udp = self
            .udp
            .iter()
            .any(|socket| !matches!(socket.recv_from(&mut buffer), Err(e) if e.kind() == ErrorKind::WouldBlock));
        tcp || udp
    }
}

#[redroom::attack]
async fn no_address_of_the_host_is_reached(run: Run) -> redroom::Result<()> {
    let host = Host::listen().unwrap();
    let script = format!(
        "for address in {}; do
           for port in {} 22 2375 2376; do
             timeout 2 bash -c \"echo hello > /dev/tcp/$address/$port\" 2>/dev/null
             timeout 2 bash -c \"echo hello > /dev/udp/$address/$port\" 2>/dev/null
           done
         done
         ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null
         grep -c @ /proc/net/unix
         ip -o link | grep -vc ' lo: '",
        Host::addresses(),
        host.ports().unwrap()
    );
    let turn = run.send(script).await?;
    assert_eq!(turn.final_text, "0\n0\n", "{}", turn.stderr);
    run.finish().await?;
    assert!(!host.was_reached(), "the agent reached a listener of the host");
    TcpStream::connect((Ipv4Addr::LOCALHOST, host.tcp[0].local_addr().unwrap().port())).unwrap();
    assert!(host.was_reached(), "the listener would not have noticed");
    Ok(())
}

#[redroom::attack]
async fn no_port_of_the_sidecar_can_be_taken(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            r#"cat > /tmp/take.py <<'END'
import socket, itertools
addresses = ["0.0.0.0", "127.0.0.1", "192.0.2.1", "192.0.2.20", "1.1.1.1", "::", "::1", "2001:db8::1", "::ffff:192.0.2.1"]
options = [[], [socket.SO_REUSEADDR], [socket.SO_REUSEPORT], [socket.SO_REUSEADDR, socket.SO_REUSEPORT]]
kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM]
for address, port, option, kind, only in itertools.product(addresses, [53, 80, 81, 82, 83, 443, 1023], options, kinds, [0, 1]):
    six = ":" in address
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind)
    for o in option: s.setsockopt(socket.SOL_SOCKET, o, 1)
    if six: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    try:
        s.bind((address, port))
        print("took", address, port, option, kind)
    except OSError:
        pass
for family, kind, proto in [(socket.AF_INET, socket.SOCK_RAW, 6), (socket.AF_PACKET, socket.SOCK_RAW, 3), (socket.AF_INET, socket.SOCK_DGRAM, 1)]:
    try:
        socket.socket(family, kind, proto)
        print("opened", family, kind, proto)
    except OSError:
        pass
for level, option in [(socket.SOL_IP, 19), (socket.IPPROTO_IPV6, 75)]:
    try:
        socket.socket(socket.AF_INET if option == 19 else socket.AF_INET6).setsockopt(level, option, 1)
        print("transparent", option)
    except OSError:
        pass
s = socket.socket()
s.bind(("8.8.4.4", 3456))
print("own server:", s.getsockname()[1])
END
python3 /tmp/take.py
ip route add local 10.0.0.0/8 dev lo 2>/dev/null && echo routed
ip addr add 10.0.0.1/8 dev lo 2>/dev/null && echo addressed
curl -sS -o /dev/null -w '%{http_code}' http://t.redroom.test/"#,
        )
        .await?;
    assert_eq!(turn.final_text, "own server: 3456\n404", "{}", turn.stderr);
    let result = run.finish().await?;
    assert!(result.hits.iter().any(|hit| hit.host == "t.redroom.test" && hit.protocol == Protocol::Http));
    Ok(())
}

#[redroom::attack]
async fn an_agent_that_kills_all_it_can_kills_only_itself(run: Run) -> redroom::Result<()> {
    run.send("(setsid sleep 300 &) ; touch before; bash -c 'kill -9 -1'").await?;
    let turn = run
        .send(
            "kill -9 1 2>/dev/null && echo killed
             for file in environ mem maps root fd/0 exe cwd; do cat /proc/1/$file >/dev/null 2>&1 && echo $file; done
             ls /proc/1/fd /proc/1/root /proc/1/task/1/fd 2>/dev/null
             stat -c %U /proc/1
             pgrep -u agent -x sleep
             for p in /proc/[0-9]*; do stat -c %U $p 2>/dev/null; done | sort | uniq -c | awk '$2 != \"agent\"'
             curl -sS http://t.redroom.test/ -d x",
        )
        .await?;
    let text: Vec<&str> = turn.final_text.split_whitespace().collect();
    let result = run.finish().await?;
    // In a jail the first process is the agent's own user's, who may send it what he likes: it goes on, or there were no answer.
    let expected: &[&str] =
        if crate::is_docker(&result) { &["redroom", "1", "redroom", "ok"] } else { &["killed", "agent", "ok"] };
    assert_eq!(text, expected, "{turn:?}");
    assert_eq!(result.turns[0].exit_code, Some(137));
    assert!(result.changes.iter().any(|change| change.path.as_bytes().ends_with(b"/before")));
    assert!(result.hits.iter().any(|hit| hit.method == "POST"));
    assert_eq!(result.errors, []);
    Ok(())
}

#[redroom::attack]
async fn the_agent_has_no_right_and_can_gain_none(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            "awk '/^(Cap|NoNewPrivs|Seccomp:)/ {print $1 $2}' /proc/self/status
             test $(id -u) -gt 0 && test $(id -g) -gt 0 && id -un && id -gn
             id -Gn | tr ' ' '\\n' | grep -v nogroup
             unshare -Ur true 2>/dev/null && echo user namespace
             unshare -n true 2>/dev/null && echo network namespace
             mount -t tmpfs none /mnt 2>/dev/null && echo mounted
             echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start && echo sysctl
             su -c true root </dev/null && echo su
             true",
        )
        .await?;
    let nothing = "0000000000000000";
    let caps: String = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{nothing}\n")).concat();
    assert_eq!(turn.final_text, format!("{caps}NoNewPrivs:1\nSeccomp:2\nagent\nagent\nagent\n"), "{}", turn.stderr);
    assert_eq!(run.finish().await?.errors, []);
    Ok(())
}

#[redroom::attack(files = { "/opt/tool/notes.txt": "notes" })]
async fn nothing_of_the_image_is_writable_but_the_places_that_are_collected(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' \
               ! -path '/home/agent*' ! -path '/workspace*' ! -path /tmp ! -path /var/tmp ! -path /run/lock 2>/dev/null
             for file in /etc/ssl/certs/ca-certificates.crt /usr/lib/ssl/cert.pem \
                         /usr/local/share/ca-certificates/redroom.crt /etc/resolv.conf /etc/hosts /etc/passwd; do
               stat -L -c '%U %a' $file; { echo x >> $file; } 2>/dev/null && echo wrote $file
               mv -f $file /tmp/stolen 2>/dev/null && echo moved $file
               # Over the edge of a file system a move begins with a copy.
               rm -f /tmp/stolen
             done
             rm -f /tmp/stolen
             awk '$4 ~ /(^|,)rw(,|$)/ {print $2}' /proc/mounts | grep -v -e '^/dev' -e '^/proc' -e '^/sys' | sort",
        )
        .await?;
    let result = run.finish().await?;
    assert_eq!(result.changes, []);
    let (text, mounts) = if crate::is_docker(&result) {
        (turn.final_text, "/\n/etc/hostname\n/etc/hosts\n/etc/resolv.conf\n")
    } else {
        // In a plain user's jail all files are that user's, and what is not the agent's is read-only.
        let places = "/home/agent\n/opt/tool/notes.txt\n/run/lock\n/tmp\n/var/tmp\n/workspace\n";
        (turn.final_text.replace("agent 644", "root 644"), places)
    };
    let root = "root 644\n".repeat(6);
    assert_eq!(text, format!("/opt/tool/notes.txt\n{root}{mounts}"), "{}", turn.stderr);
    Ok(())
}
