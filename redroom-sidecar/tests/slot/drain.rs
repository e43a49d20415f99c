//! The end of a run: nothing that it said is lost, and nothing of it is credited to the next.

use std::time::Duration;

use redroom_sidecar::ServeError;
use redroom_sidecar::wire::{Generation, Protocol};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{Harness, PATIENCE, SECRET, page, say};

#[tokio::test]
async fn what_was_said_on_connections_that_were_never_accepted_is_drained() {
    let harness = Harness::with(vec![]).await;
    // More than there are places, each with its words already said and its client gone.
    const CLIENTS: usize = 300;
    for n in 0..CLIENTS {
        let mut client = std::net::TcpStream::connect(harness.web).unwrap();
        let words = format!("GET /{n}?{SECRET} HTTP/1.1\r\nHost: t.redroom.test\r\n\r\n");
        std::io::Write::write_all(&mut client, words.as_bytes()).unwrap();
    }
    assert_eq!(harness.end(1, PATIENCE).await, 0);
    let hits = harness.hits();
    let whole = hits.iter().filter(|hit| hit.protocol == Protocol::Http && hit.secrets.len() == 1).count();
    assert_eq!(whole, CLIENTS, "{hits:#?}");
}

#[tokio::test]
async fn a_connection_keeps_the_generation_in_which_it_was_accepted() {
    let harness = Harness::with(vec![page("docs.redroom.test", "/", "first")]).await;
    let mut old = TcpStream::connect(harness.web).await.unwrap();
    old.write_all(b"POST / HTTP/1.1\r\nHost: docs.redroom.test\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    harness.hit(|hit| hit.method == "POST").await;

    assert_eq!(harness.end(1, Duration::from_millis(50)).await, 1, "it was still open when patience ended");
    let (generation, hit) = harness.attributed_hit(|hit| hit.fault.is_some()).await;
    assert_eq!((generation, hit.complete, hit.body.as_bytes()), (Some(Generation(1)), false, &b"half"[..]));

    say(harness.web, "GET /between HTTP/1.1\r\nHost: docs.redroom.test\r\nConnection: close\r\n\r\n").await;
    let (generation, hit) = harness.attributed_hit(|hit| hit.path == "/between").await;
    assert_eq!((generation, hit.blocked), (None, true));

    harness.begin(2, harness.scenario(vec![page("docs.redroom.test", "/", "second")])).await;
    let answer = say(harness.web, "GET / HTTP/1.1\r\nHost: docs.redroom.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.ends_with("second"), "{answer}");
    let (generation, hit) = harness.attributed_hit(|hit| hit.method == "GET" && hit.path == "/").await;
    assert_eq!((generation, hit.id), (Some(Generation(2)), 1));
}

#[tokio::test]
async fn a_client_that_is_turned_away_and_cut_before_its_last_word_counts_once() {
    let harness = Harness::with(vec![]).await;
    // What is no request, what is no greeting, and half a message.
    let said = [
        (harness.web, &b"nonsense\r\n\r\n"[..]),
        (harness.tls, b"\x16\x03\x01\x00\x04none"),
        (harness.dns_tcp, b"\0\x09no"),
    ];
    let mut clients = Vec::new();
    for (address, words) in said {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(words).await.unwrap();
        clients.push(client);
    }
    for (address, _) in &said[..2] {
        let turned_away = harness.hit(|hit| hit.address == *address && hit.fault.is_some()).await;
        assert!(!turned_away.complete, "{turned_away:?}");
    }
    assert_eq!(harness.end(1, Duration::from_millis(50)).await, 3, "{:#?}", harness.hits());
}

#[tokio::test]
async fn nothing_goes_on_when_the_link_is_lost() {
    let harness = Harness::with(vec![]).await;
    let web = harness.web;
    let _idle = TcpStream::connect(web).await.unwrap();
    let ended = harness.vanish().await;
    assert!(matches!(ended, Err(ServeError::LinkLost(_) | ServeError::LinkEnded)), "{ended:?}");
    let refused = TcpStream::connect(web).await;
    assert!(refused.is_err(), "the web goes on");
}
