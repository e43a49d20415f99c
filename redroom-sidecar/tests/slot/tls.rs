//! The fake web over TLS, to clients that verify.

use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use redroom_sidecar::wire::{CertificateAuthority, Protocol};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{ENCRYPTED, Harness, SECRET, page};

async fn connect(
    harness: &Harness,
    trusted: &CertificateAuthority,
    name: &str,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(harness.tls).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned()).unwrap(), stream).await
}

#[tokio::test]
async fn any_name_and_the_meant_address_are_verified() {
    let harness = Harness::with(vec![page("a.b.c.redroom.test", "/", "over tls")]).await;
    for name in ["a.b.c.redroom.test", "127.0.0.1", "api.github.com"] {
        let mut stream = connect(&harness, &harness.authority, name, &[]).await.unwrap();
        let request = format!("GET /{} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        let expected = if name.ends_with("redroom.test") { "over tls" } else { "not found" };
        assert!(said.ends_with(expected), "{name}: {said}");
        let hit = harness.hit(|hit| hit.host == name && hit.complete).await;
        assert_eq!((hit.protocol, hit.blocked), (Protocol::Https, expected == "not found"));
        assert_eq!(hit.server_name.as_deref(), Some(name).filter(|name| *name != "127.0.0.1"));
    }
}

#[tokio::test]
async fn http2_is_spoken_to_those_who_ask_for_it() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/x", "over h2")]).await;
    let stream = connect(&harness, &harness.authority, "docs.redroom.test", &["h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for method in ["GET", "HEAD"] {
        let request = http::Request::builder().method(method).uri("https://docs.redroom.test/x");
        let answer = sender.send_request(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["content-length"]), (200, &"7".parse().unwrap()));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, if method == "GET" { "over h2" } else { "" });
    }
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.host.as_str(), hit.path.as_str()), ("docs.redroom.test", "/x"));
    let request = http::Request::post("https://docs.redroom.test/x").body(Full::from(SECRET)).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    let hit = harness.hit(|hit| hit.method == "POST" && hit.complete).await;
    assert_eq!((hit.body.as_bytes(), hit.secrets.len()), (SECRET.as_bytes(), 1));
}

#[tokio::test]
async fn a_head_as_large_as_a_command_line_can_make_it_is_read_over_http2() {
    let harness = Harness::with(vec![]).await;
    let stream = connect(&harness, &harness.authority, "t.redroom.test", &["h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let long = "a".repeat(60_000);
    let request = http::Request::get(format!("https://t.redroom.test/?{long}"))
        .header("x-1", &long)
        .header("x-2", format!("{long}{SECRET}"))
        .header("x-3", &long);
    let answer = sender.send_request(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 404);
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.path.len(), hit.secrets.len()), (60_002, 1));
}

#[tokio::test]
async fn what_is_said_beside_the_requests_of_http2_is_searched() {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // Indexed: GET, https, /; then the authority, and another header with its name and value as they are.
    let head = |name: &[u8], value: &[u8]| {
        let authority = b"t.redroom.test";
        let mut head = vec![0x82, 0x87, 0x84, 0x41, authority.len() as u8];
        head.extend_from_slice(authority);
        if !name.is_empty() {
            head.extend_from_slice(&[&[0, name.len() as u8], name, &[value.len() as u8], value].concat());
        }
        head
    };
    // The secret in HTTP/2's own code.
    let coded = b"\xd7\x9e\x1d\xfc\xf5\xf0\xdc\xb3\xae\xb2\x1f";
    let coded_head =
        |name: &[u8]| [&head(b"", b"")[..], &[0, name.len() as u8], name, &[0x80 | coded.len() as u8], coded].concat();
    let refused_body = [
        frame(1, 4, 3, &head(b"X-Upper", b"x")),
        frame(0, 0, 3, &SECRET.as_bytes()[..5]),
        frame(0, 1, 3, &SECRET.as_bytes()[5..]),
    ];
    let encrypted_body = [
        frame(1, 4, 3, &head(b"X-Upper", b"x")),
        frame(0, 0, 3, &ENCRYPTED.as_bytes()[..5]),
        frame(0, 1, 3, &ENCRYPTED.as_bytes()[5..]),
    ];
    for (what, said) in [
        ("a coded header that is none", frame(1, 5, 3, &coded_head(b"X-Upper"))),
        ("a coded head without an end", frame(1, 1, 3, &coded_head(b"x-open"))),
        ("a body that nobody wants, in two frames", refused_body.concat()),
        ("an unknown frame", frame(0x77, 0, 0, SECRET.as_bytes())),
        ("a last word", frame(7, 0, 0, &[&[0; 8], SECRET.as_bytes()].concat())),
        ("a header that is none", frame(1, 5, 3, &head(b"X-Upper", SECRET.as_bytes()))),
        ("a head without an end", frame(1, 1, 3, &head(b"x-open", SECRET.as_bytes()))),
        ("an unknown frame that cannot be searched", frame(0x77, 0, 0, ENCRYPTED.as_bytes())),
        ("a header that is none and cannot be searched", frame(1, 5, 3, &head(b"X-Upper", ENCRYPTED.as_bytes()))),
        ("a body that nobody wants and that cannot be searched", encrypted_body.concat()),
    ] {
        let harness = Harness::with(vec![]).await;
        let mut stream = connect(&harness, &harness.authority, "t.redroom.test", &["h2"]).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.write_all(&[frame(4, 0, 0, b""), frame(1, 5, 1, &head(b"", b""))].concat()).await.unwrap();
        harness.hit(|hit| hit.complete).await;
        stream.write_all(&said).await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
        assert_eq!(hit.secrets.len() + hit.unsearched.len(), 1, "{what}: {hit:?}");
    }
}

#[tokio::test]
async fn a_secret_in_the_greeting_of_a_connection_is_found_and_what_cannot_be_searched_is_told() {
    for (protocol, told) in [(SECRET, (1, 0)), (ENCRYPTED, (0, 1))] {
        let harness = Harness::with(vec![page("docs.redroom.test", "/", "page")]).await;
        let protocols = ["http/1.1", protocol];
        let mut stream = connect(&harness, &harness.authority, "docs.redroom.test", &protocols).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: docs.redroom.test\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        drop(stream);
        let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
        assert_eq!((hit.secrets.len(), hit.unsearched.len()), told, "{hit:?}");
        assert_eq!(hit.host, "docs.redroom.test");
    }
}

/// What a client says first, its handshake cut into records of a few bytes each.
async fn say_hello_in_pieces(harness: &Harness, protocol: &str) -> TcpStream {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("docs.redroom.test").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let records = hello[5..].chunks(7).map(|piece| [&[0x16, 3, 1, 0, piece.len() as u8], piece].concat());
    let mut stream = TcpStream::connect(harness.tls).await.unwrap();
    stream.write_all(&records.collect::<Vec<_>>().concat()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_secret_in_a_greeting_that_is_cut_into_records_is_found() {
    let harness = Harness::with(vec![]).await;
    let stream = say_hello_in_pieces(&harness, SECRET).await;
    drop(stream);
    let hit = harness.hit(|hit| hit.secrets.len() == 1).await;
    assert_eq!((hit.protocol, hit.host.as_str()), (Protocol::Other, "docs.redroom.test"), "{hit:?}");
}

#[tokio::test]
async fn what_is_said_beside_tls_on_a_connection_that_speaks_it_is_searched() {
    for (said, told) in [(SECRET, (1, 0)), (ENCRYPTED, (0, 1))] {
        for asks in [true, false] {
            let harness = Harness::with(vec![]).await;
            let mut stream = connect(&harness, &harness.authority, "t.redroom.test", &[]).await.unwrap();
            if asks {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n").await.unwrap();
                harness.hit(|hit| hit.complete).await;
            }
            let (mut bare, _) = stream.into_inner();
            bare.write_all(format!("no record, {said}").as_bytes()).await.unwrap();
            bare.shutdown().await.unwrap();
            let hit = harness.hit(|hit| hit.secrets.len() + hit.unsearched.len() > 0).await;
            assert_eq!((hit.secrets.len(), hit.unsearched.len()), told, "{hit:?}");
            assert_eq!((hit.protocol, hit.host.as_str()), (Protocol::Other, "t.redroom.test"), "{hit:?}");
        }
    }
}

#[tokio::test]
async fn another_protocol_inside_is_heard() {
    let harness = Harness::with(vec![]).await;
    let mut stream = connect(&harness, &harness.authority, "db.redroom.test", &["postgresql"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    stream.write_all(format!("\0\0\0\x08 {SECRET}").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other && hit.complete).await;
    assert_eq!((hit.server_name.as_deref(), hit.secrets.len()), (Some("db.redroom.test"), 1), "{hit:?}");
}

#[tokio::test]
async fn a_server_name_outside_with_a_host_inside_is_outside() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "inside")]).await;
    let mut stream = connect(&harness, &harness.authority, "api.github.com", &[]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: docs.redroom.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 404"), "{said}");
    let hit = harness.hit(|hit| hit.complete).await;
    assert!(hit.blocked && hit.server_name.as_deref() == Some("api.github.com"), "{hit:?}");
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_a_hit_with_the_reason() {
    let harness = Harness::with(vec![]).await;
    let stranger = redroom_sidecar::Authority::generate().unwrap();
    connect(&harness, &stranger, "docs.redroom.test", &[]).await.unwrap_err();
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert_eq!((hit.host.as_str(), hit.blocked), ("docs.redroom.test", false));
    let fault = hit.fault.unwrap();
    assert!(fault.starts_with("tls handshake: "), "{fault}");
}

#[tokio::test]
async fn what_looks_like_tls_and_is_none_is_searched() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.tls).await.unwrap();
    stream.write_all(format!("\x16 not really {SECRET}").as_bytes()).await.unwrap();
    drop(stream);
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert!(hit.secrets.len() == 1 && hit.fault.is_some(), "{hit:?}");
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_read() {
    let harness = Harness::with(vec![]).await;
    crate::harness::say(harness.tls, format!("GET /?{SECRET} HTTP/1.1\r\nHost: 1.1.1.1\r\nConnection: close\r\n\r\n"))
        .await;
    let hit = harness.hit(|hit| hit.complete).await;
    assert!(hit.protocol == Protocol::Http && hit.blocked && hit.secrets.len() == 1, "{hit:?}");
}

#[tokio::test]
async fn openssl_verifies_leaf_and_authority_strictly() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: there is no openssl here");
        return;
    }
    let harness = Harness::with(vec![]).await;
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, &harness.authority.certificate).unwrap();
    let mut serials = Vec::new();
    for name in ["docs.redroom.test", "t.redroom.test", "127.0.0.1"] {
        let stream = connect(&harness, &harness.authority, name, &[]).await.unwrap();
        let der = &stream.get_ref().1.peer_certificates().unwrap()[0];
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let leaf = folder.path().join(format!("{name}.pem"));
        std::fs::write(&leaf, format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")).unwrap();
        let host = if name == "127.0.0.1" { "-verify_ip" } else { "-verify_hostname" };
        let verified = Command::new("openssl")
            .args(["verify", "-x509_strict", "-purpose", "sslserver", host, name, "-CAfile"])
            .args([&authority, &leaf])
            .output()
            .unwrap();
        assert!(verified.status.success(), "{name}: {}", String::from_utf8_lossy(&verified.stderr));
        let serial = Command::new("openssl").args(["x509", "-noout", "-serial", "-in"]).arg(&leaf).output().unwrap();
        serials.push(serial.stdout);
    }
    serials.dedup();
    assert_eq!(serials.len(), 3);
    let long = Command::new("openssl")
        .args(["x509", "-noout", "-checkend", &(31 * 24 * 3600).to_string(), "-in"])
        .arg(&authority)
        .output()
        .unwrap();
    assert!(!long.status.success(), "the authority is valid for more than a month");
}
