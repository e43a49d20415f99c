//! The model relay: what passes, what does not, and that nothing waits for what it need not wait for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use redroom_sidecar::wire::{Part, Refusal, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::io::ReaderStream;

use crate::harness::{Answer, Harness, PATIENCE, SECRET, answer, say};

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: 192.0.2.1:81\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// An answer whose body is written by the returned pipe.
fn streamed() -> (tokio::io::DuplexStream, Answer) {
    let (writer, reader) = tokio::io::duplex(1024 * 1024);
    let frames = futures_util::StreamExt::map(ReaderStream::new(reader), |data| data.map(Frame::data));
    let mut streamed = http::Response::new(StreamBody::new(frames).boxed_unsync());
    streamed.headers_mut().insert("redroom-h-content-type", "text/event-stream".parse().unwrap());
    streamed.headers_mut().insert("redroom-h-connection", "x-hop".parse().unwrap());
    streamed.headers_mut().insert("redroom-h-x-hop", "1".parse().unwrap());
    (writer, streamed)
}

#[tokio::test]
async fn a_model_request_reaches_the_harness_without_the_agents_credentials() {
    let harness = Harness::with(vec![]).await;
    let seen: Arc<Mutex<Option<(HeaderMap, Bytes)>>> = Arc::default();
    let kept = seen.clone();
    harness.answer_model(move |request: Request<Incoming>| {
        let kept = kept.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            *kept.lock().unwrap() = Some((head.headers, body));
            answer(200, "{}")
        }
    });
    let headers = "Connection: close, x-mine\r\nX-Mine: 1\r\nX-Api-Key: placeholder\r\nAuthorization: Bearer x\r\nCookie: a=b\r\nX-Redroom-Run: forged\r\nProxy-Authorization: x\r\nAnthropic-Version: 2023-06-01\r\nAnthropic-Beta: a\r\nAnthropic-Beta: b\r\n";
    let said = say(harness.relay, post("/v1/messages?beta=true", headers, SECRET)).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("2\r\n{}\r\n0\r\n\r\n"), "{said}");

    let (headers, body) = seen.lock().unwrap().take().unwrap();
    assert_eq!(body, SECRET);
    let passed: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("redroom-h-")).collect();
    assert_eq!(
        passed,
        ["redroom-h-anthropic-version", "redroom-h-anthropic-beta", "redroom-h-content-length"],
        "{headers:?}"
    );
    assert_eq!(headers.get_all("redroom-h-anthropic-beta").iter().count(), 2);
    for (name, value) in [
        ("redroom-method", "POST"),
        ("redroom-target", "/v1/messages?beta=true"),
        ("redroom-generation", "1"),
        ("redroom-call", "1"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }

    let call = harness.model_request(|call| call.duration_ms.is_some()).await;
    assert!(call.complete && call.refusal.is_none() && call.status == Some(200), "{call:?}");
    assert_eq!((call.request_bytes, call.response_bytes), (SECRET.len() as u64, 2));
    assert_eq!(call.secrets.iter().map(|found| found.part).collect::<Vec<_>>(), [Part::Body]);
    assert!(call.headers.iter().any(|(name, value)| name == "x-api-key" && value.as_bytes() == b"placeholder"));
}

#[tokio::test]
async fn an_answer_streams_to_the_agent_piece_by_piece() {
    let harness = Harness::with(vec![]).await;
    let (mut writer, streamed) = streamed();
    let streamed = Mutex::new(Some(streamed));
    harness.answer_model(move |_| {
        let streamed = streamed.lock().unwrap().take().unwrap();
        async move { streamed }
    });
    let mut agent = TcpStream::connect(harness.relay).await.unwrap();
    agent.write_all(post("/v1/messages", "Connection: close\r\n", "{}").as_bytes()).await.unwrap();
    let mut received = String::new();
    for n in 0..3 {
        let piece = format!("data: {n}\n\n");
        writer.write_all(piece.as_bytes()).await.unwrap();
        // The next piece is written only when this one has arrived.
        let mut buffer = [0; 4096];
        while !received.contains(&piece) {
            let length = tokio::time::timeout(PATIENCE, agent.read(&mut buffer)).await.expect("held back").unwrap();
            received.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }
    drop(writer);
    agent.read_to_string(&mut received).await.unwrap();
    assert!(received.contains("content-type: text/event-stream\r\n") && !received.contains("x-hop"), "{received}");
    assert!(received.ends_with("0\r\n\r\n"), "{received}");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_does_not_look_whole() {
    let harness = Harness::with(vec![]).await;
    let (upstream, pieces) = mpsc::channel::<std::io::Result<Frame<Bytes>>>(1);
    let pieces = Mutex::new(Some(pieces));
    harness.answer_model(move |_| {
        let mut pieces = pieces.lock().unwrap().take().unwrap();
        let frames = futures_util::stream::poll_fn(move |cx| pieces.poll_recv(cx));
        async move { http::Response::new(StreamBody::new(frames).boxed_unsync()) }
    });
    let mut agent = TcpStream::connect(harness.relay).await.unwrap();
    agent.write_all(post("/v1/messages", "Connection: close\r\n", "{}").as_bytes()).await.unwrap();
    upstream.send(Ok(Frame::data(Bytes::from_static(b"data: 0\n\n")))).await.unwrap();
    let mut said = String::new();
    while !said.contains("data: 0") {
        let mut buffer = [0; 1024];
        let length = tokio::time::timeout(PATIENCE, agent.read(&mut buffer)).await.expect("held back").unwrap();
        said.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    upstream.send(Err(std::io::Error::other("the upstream broke off"))).await.unwrap();
    // However the connection ends, the mark of a whole body does not come.
    let _ = tokio::time::timeout(PATIENCE, agent.read_to_string(&mut said)).await.expect("it goes on");
    assert!(!said.ends_with("0\r\n\r\n"), "{said}");
}

#[tokio::test]
async fn what_is_no_model_endpoint_is_refused_and_searched_all_the_same() {
    let harness = Harness::with(vec![]).await;
    harness.answer_model(|_| async { answer(200, "passed") });
    let refused = [
        ("POST /v1/models", 403, Refusal::PathNotAllowed),
        ("GET /v1/messages", 403, Refusal::PathNotAllowed),
        ("POST /v1/messages/", 403, Refusal::PathNotAllowed),
        ("POST //v1/messages", 403, Refusal::PathNotAllowed),
        ("POST /v1/%6dessages", 403, Refusal::PathNotAllowed),
        ("POST /x/../v1/messages", 403, Refusal::PathNotAllowed),
        ("POST http://api.anthropic.com/v1/messages", 400, Refusal::InvalidTarget),
        ("POST /v1/messages#x", 400, Refusal::InvalidTarget),
        ("OPTIONS *", 400, Refusal::InvalidTarget),
    ];
    for (line, status, refusal) in refused {
        let words = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{SECRET}");
        let said = say(harness.relay, words).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {said}");
        let method = line.split(' ').next().unwrap();
        let call = harness
            .model_request(|call| {
                call.duration_ms.is_some()
                    && call.refusal == Some(refusal)
                    && call.method == method
                    && line.ends_with(&call.path)
            })
            .await;
        assert_eq!((call.status, call.secrets.len()), (Some(status), 1), "{call:?}");
    }
}

#[tokio::test]
async fn an_agent_that_leaves_cancels_its_request() {
    let harness = Harness::with(vec![]).await;
    let (asked_sender, mut asked) = mpsc::channel(1);
    let (gone_sender, mut gone) = mpsc::channel::<()>(1);
    harness.answer_model(move |_| {
        let (asked, gone) = (asked_sender.clone(), gone_sender.clone());
        async move {
            // Dropped when the request is cancelled; the model itself never answers.
            let _gone = gone;
            asked.send(()).await.unwrap();
            std::future::pending().await
        }
    });
    let mut agent = TcpStream::connect(harness.relay).await.unwrap();
    agent.write_all(post("/v1/messages", "", "{}").as_bytes()).await.unwrap();
    asked.recv().await.unwrap();
    drop(agent);
    harness.answer_model(|_| async { answer(200, "") });
    assert_eq!(tokio::time::timeout(PATIENCE, gone.recv()).await.expect("the request goes on"), None);
    let call = harness.model_request(|call| call.duration_ms.is_some()).await;
    assert_eq!(call.status, None);
}

/// Returns when a number has stopped to grow.
async fn at_rest(progress: &AtomicU64) {
    let standing = async {
        let mut last = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match progress.load(Ordering::Relaxed) {
                now if now == last && now > 0 => return,
                now => last = now,
            }
        }
    };
    tokio::time::timeout(PATIENCE, standing).await.expect("it never comes to rest");
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_stop_the_session() {
    const AGENTS: u32 = 60;
    let harness = Harness::with(vec![]).await;
    let (written, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let (progress, heard) = (written.clone(), asked.clone());
    harness.answer_model(move |_| {
        let progress = progress.clone();
        heard.add_permits(1);
        async move {
            let (mut writer, streamed) = streamed();
            tokio::spawn(async move {
                let piece = vec![b'x'; 64 * 1024];
                while writer.write_all(&piece).await.is_ok() {
                    progress.fetch_add(1, Ordering::Relaxed);
                }
            });
            streamed
        }
    });
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        let mut agent = TcpStream::connect(harness.relay).await.unwrap();
        agent.write_all(post("/v1/messages", "", "{}").as_bytes()).await.unwrap();
        agents.push(agent);
    }
    tokio::time::timeout(PATIENCE, asked.acquire_many(AGENTS)).await.expect("not all are heard").unwrap().forget();
    at_rest(&written).await;
    assert_eq!(harness.end(1, Duration::from_millis(100)).await, AGENTS, "the command did not get through");
}

#[tokio::test]
async fn requests_that_the_model_does_not_take_do_not_stop_the_session() {
    let harness = Harness::with(vec![]).await;
    harness.answer_model(|request: Request<Incoming>| async move {
        let _unread = request;
        std::future::pending().await
    });
    let sent = Arc::new(AtomicU64::new(0));
    let mut agents = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let mut agent = TcpStream::connect(harness.relay).await.unwrap();
        let progress = sent.clone();
        agents.spawn(async move {
            let head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
            agent.write_all(head.as_bytes()).await.unwrap();
            let piece = vec![b'x'; 64 * 1024];
            while agent.write_all(&piece).await.is_ok() {
                progress.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    at_rest(&sent).await;
    say(harness.web, "GET /still-here HTTP/1.1\r\nHost: t.redroom.test\r\nConnection: close\r\n\r\n").await;
    harness.hit(|hit| hit.path == "/still-here" && hit.complete).await;
}

#[tokio::test]
async fn a_vacant_slot_passes_nothing_on() {
    let harness = Harness::vacant().await;
    harness.answer_model(|_| async { answer(200, "passed") });
    let said = say(harness.relay, post("/v1/messages", "Connection: close\r\n", "{}")).await;
    assert!(said.starts_with("HTTP/1.1 403") && said.contains("no_run"), "{said}");
    let (generation, call) = harness
        .report(|report| match report {
            Report::ModelRequest { generation, request } if request.duration_ms.is_some() => {
                Some((*generation, request.clone()))
            }
            _ => None,
        })
        .await;
    assert_eq!((generation, call.refusal), (None, Some(Refusal::NoRun)));
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_is_over() {
    let harness = Harness::with(vec![]).await;
    harness.answer_model(|_| async { answer(413, "too much") });
    let mut agent = TcpStream::connect(harness.relay).await.unwrap();
    let head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3000013\r\n\r\n";
    agent.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    tokio::time::timeout(PATIENCE, agent.read_exact(&mut status)).await.expect("no answer").unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    let _ = tokio::time::timeout(Duration::from_secs(1), agent.write_all(&vec![b'.'; 3_000_000])).await;
}
