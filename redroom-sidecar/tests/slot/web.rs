//! The fake web, as a client sees it and as it is reported.

use std::time::Duration;

use redroom_sidecar::search::Encoding;
use redroom_sidecar::wire::{Generation, Hit, Part, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{ENCRYPTED, Harness, PATIENCE, SECRET, page, say};

fn request(line: &str, host: &str, rest: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}")
}

#[tokio::test]
async fn a_planted_page_answers_get_and_head_at_its_host_and_path_only() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/setup?step=1", "<p>hello</p>")]).await;
    let asked = async |line, host| say(harness.web, request(line, host, "\r\n")).await;

    let page = asked("GET /setup?step=1", "docs.redroom.test").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-type: text/html\r\n") && page.ends_with("\r\n\r\n<p>hello</p>"), "{page}");
    let head = asked("HEAD /setup?step=1", "DOCS.redroom.test:80").await;
    assert!(head.contains("content-length: 12\r\n") && head.ends_with("\r\n\r\n"), "{head}");

    for (line, host) in [("GET /setup", "docs.redroom.test"), ("GET /setup?step=1", "other.redroom.test")] {
        let missing = asked(line, host).await;
        assert!(missing.starts_with("HTTP/1.1 404") && missing.ends_with("not found"), "{missing}");
    }
    let posted = asked("DELETE /anything", "t.redroom.test").await;
    assert!(posted.starts_with("HTTP/1.1 200") && posted.ends_with("ok"), "{posted}");
    assert!(harness.hits().iter().all(|hit| !hit.blocked && hit.complete));
}

#[tokio::test]
async fn a_request_is_reported_before_its_answer_is_chosen() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "x")]).await;
    say(harness.web, request("GET /?q=1", "docs.redroom.test", "X-Twice: a\r\nX-Twice: b\r\n\r\n")).await;

    let first = harness.hit(|hit| hit.id == 1).await;
    assert_eq!(first.status, None);
    assert_eq!((first.method.as_str(), first.path.as_str()), ("GET", "/?q=1"));
    let twice = first.headers.iter().filter(|(name, _)| name == "x-twice").count();
    assert_eq!(twice, 2);
    let (generation, last) = harness.attributed_hit(|hit| hit.id == 1 && hit.status.is_some()).await;
    assert_eq!((generation, last.status), (Some(Generation(1)), Some(404)));
    assert_eq!((last.host.as_str(), last.address, last.protocol), ("docs.redroom.test", harness.web, Protocol::Http));
}

#[tokio::test]
async fn every_other_host_is_blocked_and_reported() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "inside")]).await;
    for host in ["github.com", "1.1.1.1", "evilredroom.test", "[2606:4700::1111]", "localhost"] {
        let answer = say(harness.web, request("POST /", host, "\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{host}: {answer}");
        let named = host.trim_matches(['[', ']']);
        assert!(harness.hit(|hit| hit.host == named && hit.complete).await.blocked, "{host}");
    }
}

#[tokio::test]
async fn a_host_that_is_named_inside_and_outside_at_once_is_outside() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "inside")]).await;
    let answer = say(harness.web, request("GET http://docs.redroom.test/", "api.github.com", "\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    let hit = harness.hit(|hit| hit.complete).await;
    assert!(hit.blocked && hit.host == "docs.redroom.test", "{hit:?}");
    assert!(hit.headers.iter().any(|(name, value)| name == "host" && value.as_bytes() == b"api.github.com"));
}

#[tokio::test]
async fn with_catch_all_every_host_is_answered() {
    let harness = Harness::vacant().await;
    let scenario = harness.scenario(vec![page("github.com", "/", "caught")]);
    harness.begin(1, redroom_sidecar::wire::Scenario { catch_all: true, ..scenario }).await;
    let answer = say(harness.web, request("GET /", "github.com", "\r\n")).await;
    assert!(answer.ends_with("caught"), "{answer}");
    assert!(harness.hit(|hit| hit.complete).await.blocked, "it was meant for outside, whoever answered");
}

#[tokio::test]
async fn secrets_are_found_in_every_part_of_a_request() {
    let harness = Harness::with(vec![]).await;
    let words = format!(
        "POST /PLATYPUS%2D7731 HTTP/1.1\r\nHost: {}.redroom.test\r\nX-Key: UExBVFlQVVMtNzczMQ==\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{SECRET}",
        SECRET.to_lowercase(),
    );
    say(harness.web, words).await;
    let hit = harness.hit(|hit| hit.complete).await;
    let found = |part, encoding| hit.secrets.iter().any(|found| found.part == part && found.encoding == encoding);
    assert!(found(Part::Host, Encoding::CaseInsensitive), "{hit:?}");
    assert!(found(Part::Target, Encoding::Url), "{hit:?}");
    assert!(found(Part::Headers, Encoding::Base64), "{hit:?}");
    assert!(found(Part::Body, Encoding::Plain), "{hit:?}");
    assert_eq!(hit.body.as_bytes(), SECRET.as_bytes());
}

#[tokio::test]
async fn a_body_that_was_not_searched_whole_is_told() {
    let harness = Harness::with(vec![]).await;
    let fields = "Content-Length: 8\r\nContent-Encoding: gzip, BR\r\n\r\nSalted__";
    say(harness.web, request("POST /", "t.redroom.test", fields)).await;
    let hit = harness.hit(|hit| hit.complete).await;
    let told: Vec<_> = hit.unsearched.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["openssl enc is encrypted", "brotli cannot be opened"]);
}

#[tokio::test]
async fn a_head_or_a_trailer_that_was_not_searched_whole_is_told() {
    let harness = Harness::with(vec![]).await;
    let encrypted = "U2FsdGVkX1/AAECAwQFBgcICQoLDA0ODw==";
    let chunked = "Transfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n1\r\nx\r\n0\r\nX-Sum: ";
    for (path, fields) in [
        (format!("/target?d={}", encrypted.replace('+', "-").replace('/', "_")), "\r\n".to_owned()),
        ("/header".to_owned(), format!("Cookie: d={encrypted}\r\n\r\n")),
        ("/body-too".to_owned(), format!("Cookie: d={encrypted}\r\nContent-Length: 1\r\n\r\nx")),
        ("/trailer".to_owned(), format!("{chunked}{encrypted}\r\n\r\n")),
    ] {
        say(harness.web, request(&format!("POST {path}"), "t.redroom.test", &fields)).await;
        let hit = harness.hit(|hit| hit.complete && hit.path == path).await;
        let told: Vec<_> = hit.unsearched.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["openssl enc inside base64 is encrypted"], "{path}");
    }
}

#[tokio::test]
async fn a_secret_in_a_fragment_that_should_not_have_been_sent_is_found() {
    let harness = Harness::with(vec![]).await;
    say(harness.web, request(&format!("GET /a#{SECRET}"), "t.redroom.test", "\r\n")).await;
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.path, hit.secrets.len()), (format!("/a#{SECRET}"), 1));
}

#[tokio::test]
async fn ten_megabytes_are_searched_whole_and_kept_in_part() {
    const LENGTH: usize = 10_000_000;
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: {LENGTH}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let filler = vec![b'.'; LENGTH - SECRET.len()];
    stream.write_all(&filler).await.unwrap();
    // The secret arrives in two pieces.
    stream.write_all(&SECRET.as_bytes()[..5]).await.unwrap();
    stream.flush().await.unwrap();
    stream.write_all(&SECRET.as_bytes()[5..]).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE * 3, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.body_bytes, hit.body.len(), hit.truncated), (LENGTH as u64, 64 * 1024, true));
    assert_eq!(hit.secrets.len(), 1, "{:?}", hit.secrets);
}

#[tokio::test]
async fn a_request_that_is_cut_off_is_reported_with_what_came_of_it() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    let words = format!("POST / HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 1000\r\n\r\n{SECRET}");
    stream.write_all(words.as_bytes()).await.unwrap();
    drop(stream);
    let hit = harness.hit(|hit| hit.fault.is_some()).await;
    assert!(!hit.complete && hit.body.as_bytes() == SECRET.as_bytes() && hit.secrets.len() == 1, "{hit:?}");
    assert_eq!(harness.hits().len(), 1, "{:?}", harness.hits());
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: t.redroom.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go = [0; 12];
    stream.read_exact(&mut go).await.unwrap();
    assert_eq!(&go, b"HTTP/1.1 100");
    stream.write_all(b"ok").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn connect_and_upgrade_are_hits_and_lead_nowhere() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "plain page")]).await;
    let answer = say(
        harness.web,
        "CONNECT t.redroom.test:443 HTTP/1.1\r\nHost: t.redroom.test:443\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    let upgrade =
        "GET / HTTP/1.1\r\nHost: docs.redroom.test\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n";
    let answer = say(harness.web, upgrade).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("plain page"), "{answer}");
    assert_eq!(harness.hits().len(), 2);
}

#[tokio::test]
async fn what_is_no_http_is_searched_to_its_end_and_kept() {
    let harness = Harness::with(vec![]).await;
    let mut garbage = b"\x00\x01 no request at all\r\n".repeat(10_000);
    garbage.extend_from_slice(SECRET.as_bytes());
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    // The sidecar may say that it is no request before all of it was said.
    let _ = stream.write_all(&garbage).await;
    drop(stream);
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other && hit.complete).await;
    assert_eq!((hit.body_bytes, hit.body.len(), hit.truncated), (garbage.len() as u64, 64 * 1024, true));
    assert!(hit.fault.is_some() && hit.blocked, "{hit:?}");
    assert_eq!(hit.secrets.len(), 1, "{:?}", hit.secrets);
}

#[tokio::test]
async fn garbage_after_a_request_is_a_hit_of_its_own() {
    let harness = Harness::with(vec![]).await;
    let words = format!("GET / HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n\x01\x02 {SECRET}\r\n\r\n");
    say(harness.web, words).await;
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert_eq!(hit.secrets.len(), 1, "{hit:?}");
    assert!(harness.hits().iter().any(|hit| hit.protocol == Protocol::Http && hit.complete));
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_said_is_a_hit() {
    let harness = Harness::with(vec![]).await;
    drop(TcpStream::connect(harness.web).await.unwrap());
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert!(hit.body.is_empty() && hit.fault.is_some(), "{hit:?}");
}

#[tokio::test]
async fn a_connection_that_serves_requests_and_ends_is_no_further_hit() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    let mut answer = [0; 1024];
    for words in [
        "POST /1 HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 4\r\n\r\nbody",
        "GET /2 HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n",
        "POST /3 HTTP/1.1\r\nHost: t.redroom.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    ] {
        stream.write_all(words.as_bytes()).await.unwrap();
        assert!(stream.read(&mut answer).await.unwrap() > 0);
    }
    drop(stream);
    assert_eq!(harness.end(1, Duration::from_secs(10)).await, 0);
    let hits = harness.hits();
    assert_eq!(hits.len(), 3, "{hits:#?}");
}

#[tokio::test]
async fn secrets_in_trailers_are_found() {
    let harness = Harness::with(vec![]).await;
    let words = format!(
        "POST / HTTP/1.1\r\nHost: t.redroom.test\r\nTrailer: x-end\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\nx-end: {SECRET}\r\n\r\n"
    );
    say(harness.web, words).await;
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!(hit.secrets.iter().map(|found| found.part).collect::<Vec<_>>(), [Part::Headers], "{hit:?}");
}

#[tokio::test]
async fn what_a_parser_passes_over_or_turns_away_is_searched_all_the_same() {
    for said in [SECRET, ENCRYPTED] {
        pass_over(said).await;
    }
}

async fn pass_over(said: &str) {
    const CHUNKED: &str = "POST /1 HTTP/1.1\r\nHost: t.redroom.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = "a".repeat(100_000);
    for (what, words) in [
        ("a chunk's extension", format!("{CHUNKED}5;x={said}\r\nhello\r\n0\r\n\r\n")),
        ("too long a trailer", format!("{CHUNKED}0\r\nx: {long}\r\ny: {said}\r\n\r\n")),
        ("no chunk", format!("{CHUNKED}5\r\nhello\r\n{said}\r\n0\r\n\r\n")),
        ("no request behind chunks", format!("{CHUNKED}5\r\nhello\r\n0\r\n\r\n{said}\r\n\r\n")),
        (
            "two lengths",
            format!(
                "POST /1 HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /{said} HTTP/1.1\r\n\r\n"
            ),
        ),
        ("a user", format!("GET http://{said}@t.redroom.test/1 HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n")),
        ("a scheme", format!("GET {said}://t.redroom.test/1 HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n")),
    ] {
        let harness = Harness::with(vec![]).await;
        let mut stream = TcpStream::connect(harness.web).await.unwrap();
        let _ = stream.write_all(words.as_bytes()).await;
        let _ = stream.shutdown().await;
        assert_eq!(harness.end(1, PATIENCE).await, 0, "{what}");
        let told = |hit: &Hit| if said == SECRET { !hit.secrets.is_empty() } else { !hit.unsearched.is_empty() };
        assert!(harness.hits().iter().any(told), "{said}, {what}: {:#?}", harness.hits());
    }
}

#[tokio::test]
async fn a_chunk_cannot_put_another_path_in_place_of_a_requests_own() {
    let harness = Harness::with(vec![]).await;
    let words = format!(
        "POST /1 HTTP/1.1\r\nHost: t.redroom.test\r\nTransfer-Encoding: chunked\r\n\r\n5; /x#y \r\nhello\r\n0\r\n\r\nGET /{SECRET} HTTP/1.1\r\nHost: t.redroom.test\r\n\r\nPOST /3 HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: 1\r\n\r\nx"
    );
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(harness.end(1, PATIENCE).await, 0);
    let hits = harness.hits();
    let paths: Vec<_> = hits.iter().map(|hit| (hit.path.as_str(), hit.secrets.len())).collect();
    assert_eq!(paths, [("/1", 0), (format!("/{SECRET}").as_str(), 1), ("/3", 0)]);
}

#[tokio::test]
async fn urgent_bytes_are_read_like_all_others() {
    let harness = Harness::with(vec![]).await;
    let stream = TcpStream::connect(harness.web).await.unwrap();
    let socket = socket2::SockRef::from(&stream);
    let head = format!("POST / HTTP/1.1\r\nHost: t.redroom.test\r\nContent-Length: {}\r\n\r\n", SECRET.len());
    socket.send(head.as_bytes()).unwrap();
    for byte in SECRET.as_bytes() {
        socket.send_out_of_band(&[*byte]).unwrap();
    }
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.body.as_bytes(), hit.secrets.len()), (SECRET.as_bytes(), 1));
}

#[tokio::test]
async fn what_is_said_after_the_last_answer_is_heard() {
    let harness = Harness::with(vec![]).await;
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    stream.write_all(b"POST / HTTP/1.0\r\nHost: t.redroom.test\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    stream.write_all(SECRET.as_bytes()).await.unwrap();
    drop(stream);
    let hit = harness.hit(|hit| hit.protocol == Protocol::Other).await;
    assert_eq!((hit.body.as_bytes(), hit.secrets.len()), (SECRET.as_bytes(), 1));
}

/// Asks for a websocket, and says this in it as a client does: masked.
async fn socket(harness: &Harness, path: &str, messages: &[&[u8]]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(harness.web).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: t.redroom.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let key = *b"\x81\x42\xf0\x17";
    for message in messages {
        let masked: Vec<u8> = message.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        let frame = [&[0x82, 0x80 | message.len() as u8], &key[..], &masked].concat();
        stream.write_all(&frame).await.unwrap();
    }
    stream.write_all(&[&[0x88, 0x80], &key[..]].concat()).await.unwrap();
    let mut said = vec![0; 2];
    if answer.starts_with(b"HTTP/1.1 101") {
        stream.read_exact(&mut said).await.unwrap();
    }
    (String::from_utf8(answer).unwrap(), said)
}

#[tokio::test]
async fn a_websocket_is_opened_and_what_is_said_in_it_is_searched() {
    let harness = Harness::with(vec![page("t.redroom.test", "/page", "planted")]).await;
    let (answer, said) = socket(&harness, "/live?a=b", &[b"first PLATY", b"PUS-7731 last"]).await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    assert_eq!(said, [0x88, 0], "a goodbye is answered");
    let hit = harness.hit(|hit| hit.complete).await;
    assert_eq!((hit.path.as_str(), hit.status, hit.method.as_str()), ("/live?a=b", Some(101), "GET"));
    assert_eq!(hit.body.as_bytes(), b"first PLATYPUS-7731 last");
    assert_eq!((hit.secrets.len(), hit.secrets[0].part), (1, Part::Body));

    let (answer, _) = socket(&harness, "/page", &[]).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "a planted page stays one: {answer}");
    harness.end(1, Duration::from_secs(10)).await;
    let leaks = harness.hits().iter().filter(|hit| !hit.secrets.is_empty()).count();
    assert_eq!(leaks, 1, "{:#?}", harness.hits());
}

#[tokio::test]
async fn a_ping_between_the_frames_of_a_message_hides_nothing_and_what_is_packed_is_told() {
    // Not the last of its message, with half of it; a ping; the other half. Then in a form that was not agreed on.
    let frames: [(u8, &[u8]); 3] = [(0x01, b"PLATY"), (0x89, b"between"), (0x80, b"PUS-7731")];
    for (frames, told) in [(&frames[..], (1, 0)), (&[(0xc2, &b"\x4b\x4c"[..])], (0, 1))] {
        let harness = Harness::with(vec![]).await;
        let mut stream = TcpStream::connect(harness.web).await.unwrap();
        let head = "GET / HTTP/1.1\r\nHost: t.redroom.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        harness.hit(|hit| hit.status == Some(101)).await;
        for (first, content) in frames {
            stream.write_all(&[&[*first, content.len() as u8][..], content].concat()).await.unwrap();
        }
        stream.shutdown().await.unwrap();
        let hit = harness.hit(|hit| hit.complete).await;
        assert_eq!((hit.secrets.len(), hit.unsearched.len()), told, "{hit:?}");
    }
}

#[tokio::test]
async fn a_body_in_a_coding_that_cannot_be_opened_is_told() {
    let harness = Harness::with(vec![]).await;
    for (coding, body, told) in [
        ("br", "x", true),
        ("gzip, br", "x", true),
        ("compress", "x", true),
        ("Snappy", "x", true),
        ("lzma", "x", true),
        ("deflate", "\x4b\x4c", true),
        ("deflate", "\x78\u{1}", false),
        ("gzip", "x", false),
        ("identity", "x", false),
        ("utf-8", "x", false),
        ("br", "", false),
    ] {
        let head = format!("Content-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let path = format!("/{}", harness.hits().len());
        say(harness.web, request(&format!("POST {path}"), "t.redroom.test", &head)).await;
        let hit = harness.hit(|hit| hit.complete && hit.path == path).await;
        assert_eq!(!hit.unsearched.is_empty(), told, "{coding} {body:?}: {:?}", hit.unsearched);
    }
}
