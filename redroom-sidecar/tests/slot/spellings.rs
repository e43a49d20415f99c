//! However a request to the model is spelled, nothing but the endpoints that were allowed gets through to whoever plays the
//! model: what was answered, what was recorded, and what the other side saw, for each spelling.

mod http2;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use redroom_sidecar::wire::{ModelRequest, Refusal, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Harness, PATIENCE, SECRET, answer};

/// What became of a spelling: the status that was answered, and where it is on record.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fate {
    status: u16,
    recorded: Recorded,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Recorded {
    /// A model call that was refused.
    Refused(Refusal),
    /// What is no request at all is a hit, with what is wrong with it.
    Hit,
}

const NOT_ALLOWED: Fate = Fate { status: 403, recorded: Recorded::Refused(Refusal::PathNotAllowed) };
const NO_PATH: Fate = Fate { status: 400, recorded: Recorded::Refused(Refusal::InvalidTarget) };
const NO_REQUEST: Fate = Fate { status: 400, recorded: Recorded::Hit };

/// A sidecar, and the targets that reached whoever plays its model.
struct Relay {
    harness: Harness,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    async fn new() -> Self {
        let harness = Harness::with(vec![]).await;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = seen.clone();
        harness.answer_model(move |request: Request<Incoming>| {
            let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
            notes.lock().unwrap().push(format!("{} {}", header("redroom-method"), header("redroom-target")));
            async { answer(200, "passed") }
        });
        Relay { harness, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The model calls that are over, each in its last state.
    fn calls(&self) -> Vec<ModelRequest> {
        let mut calls = std::collections::BTreeMap::new();
        for report in self.harness.reports() {
            if let Report::ModelRequest { request, .. } = report
                && request.duration_ms.is_some()
            {
                calls.insert(request.id, *request);
            }
        }
        calls.into_values().collect()
    }

    /// Sends bytes, and waits until they are on record: what was answered, and the record. What should be no request is
    /// followed by the end of the stream, for which it is heard out.
    async fn fate(&self, words: &[u8], expected: Recorded) -> (Vec<u8>, Recorded) {
        let (calls, hits) = (self.calls().len(), self.harness.hits().len());
        let said = say(self.harness.relay, words, expected == Recorded::Hit).await;
        let told = async {
            loop {
                if let Some(call) = self.calls().get(calls) {
                    let refusal = call.refusal.unwrap_or_else(|| panic!("{call:?} got through"));
                    assert!(call.secrets.iter().any(|found| found.secret == "api_token"), "not searched: {call:?}");
                    return Recorded::Refused(refusal);
                }
                if let Some(hit) = self.harness.hits().get(hits).filter(|hit| hit.complete) {
                    assert!(hit.fault.is_some(), "{hit:?}");
                    assert!(hit.secrets.iter().any(|found| found.secret == "api_token"), "not searched: {hit:?}");
                    return Recorded::Hit;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let words = String::from_utf8_lossy(&words[..words.len().min(200)]).into_owned();
        let recorded = tokio::time::timeout(PATIENCE, told).await;
        (said, recorded.unwrap_or_else(|_| panic!("nothing is on record of {words:?}")))
    }
}

/// Says something, perhaps that this was all, and reads to the end, whatever it is.
async fn say(address: std::net::SocketAddr, words: &[u8], is_all: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut said = Vec::new();
    let talk = async {
        let _ = stream.write_all(words).await;
        if is_all {
            let _ = stream.shutdown().await;
        }
        let _ = stream.read_to_end(&mut said).await;
    };
    tokio::time::timeout(PATIENCE, talk).await.expect("no answer");
    said
}

fn status(said: &[u8]) -> u16 {
    let line = String::from_utf8_lossy(said);
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn no_spelling_of_a_target_gets_through_but_the_allowed_one() {
    let relay = Relay::new().await;
    let long = [b"POST /v1/messages/".as_slice(), &b"a".repeat(70_000)].concat();
    let mut wrong = Vec::new();
    let table: &[(&[u8], Fate)] = &[
        // Other endpoints, other methods.
        (b"POST /v1/models", NOT_ALLOWED),
        (b"POST /v1/messages/batches", NOT_ALLOWED),
        (b"POST /v1/messages/count_tokens", NOT_ALLOWED),
        (b"POST /v1/complete", NOT_ALLOWED),
        (b"POST /v1/files", NOT_ALLOWED),
        (b"POST /v1/organizations/api_keys", NOT_ALLOWED),
        (b"POST /", NOT_ALLOWED),
        (b"POST /v1", NOT_ALLOWED),
        (b"POST /v1/message", NOT_ALLOWED),
        (b"POST /v1/messagesx", NOT_ALLOWED),
        (b"GET /v1/messages", NOT_ALLOWED),
        (b"PUT /v1/messages", NOT_ALLOWED),
        (b"PATCH /v1/messages", NOT_ALLOWED),
        (b"DELETE /v1/messages", NOT_ALLOWED),
        (b"OPTIONS /v1/messages", NOT_ALLOWED),
        (b"TRACE /v1/messages", NOT_ALLOWED),
        (b"HEAD /v1/messages", NOT_ALLOWED),
        (b"post /v1/messages", NOT_ALLOWED),
        (b"POSTS /v1/messages", NOT_ALLOWED),
        // Slashes and dots.
        (b"POST /v1/messages/", NOT_ALLOWED),
        (b"POST /v1/messages//", NOT_ALLOWED),
        (b"POST //v1/messages", NOT_ALLOWED),
        (b"POST /v1//messages", NOT_ALLOWED),
        (b"POST /./v1/messages", NOT_ALLOWED),
        (b"POST /v1/./messages", NOT_ALLOWED),
        (b"POST /v1/messages/.", NOT_ALLOWED),
        (b"POST /x/../v1/messages", NOT_ALLOWED),
        (b"POST /v1/x/../messages", NOT_ALLOWED),
        (b"POST /../v1/messages", NOT_ALLOWED),
        (b"POST /v1/messages/..", NOT_ALLOWED),
        (b"POST /v1/messages/../../admin", NOT_ALLOWED),
        (b"POST /v1/messages/../messages", NOT_ALLOWED),
        (b"POST //evil.example/v1/messages", NOT_ALLOWED),
        // Percent-encoding.
        (b"POST /v1/%6dessages", NOT_ALLOWED),
        (b"POST /%76%31/messages", NOT_ALLOWED),
        (b"POST /v1%2fmessages", NOT_ALLOWED),
        (b"POST /v1%2Fmessages", NOT_ALLOWED),
        (b"POST /v1%252fmessages", NOT_ALLOWED),
        (b"POST /v1/%2e/messages", NOT_ALLOWED),
        (b"POST /x/%2e%2e/v1/messages", NOT_ALLOWED),
        (b"POST /v1/messages/%2e%2e/%2E%2E/admin", NOT_ALLOWED),
        (b"POST /v1/messages%2f", NOT_ALLOWED),
        (b"POST /v1%5cmessages", NOT_ALLOWED),
        (b"POST /v1/messages%00", NOT_ALLOWED),
        (b"POST /v1/messages%20", NOT_ALLOWED),
        (b"POST /v1/messages%0d%0aX-Smuggled:%201", NOT_ALLOWED),
        (b"POST /v1/messages%3fbeta=true", NOT_ALLOWED),
        (b"POST /v1/messages%23", NOT_ALLOWED),
        (b"POST /v1/messages%", NOT_ALLOWED),
        (b"POST /v1/messages%c0%af", NOT_ALLOWED),
        // Other characters.
        (b"POST /v1/messages;x=1", NOT_ALLOWED),
        (b"POST /v1;x=1/messages", NOT_ALLOWED),
        (b"POST /v1/messages;/../admin", NOT_ALLOWED),
        (b"POST /V1/MESSAGES", NOT_ALLOWED),
        (b"POST /v1/Messages", NOT_ALLOWED),
        (b"POST /v1\\messages", NOT_ALLOWED),
        (b"POST /v1/messages\\..\\..\\admin", NOT_ALLOWED),
        (b"POST /v1/messages\xc3\xa9", NOT_ALLOWED),
        (b"POST /v1/messages\xff", NO_REQUEST),
        (b"POST /v1/messages\x7f", NO_REQUEST),
        (b"POST /v1/messages\0", NO_REQUEST),
        (b"POST /v1/messages\t", NO_REQUEST),
        (b"POST /v1/mess\rages", NO_REQUEST),
        (b"POST  /v1/messages", NO_REQUEST),
        (b"POST /v1/messages ", NO_REQUEST),
        (b"POST /v1/messages /v1/messages", NO_REQUEST),
        (b"P\0ST /v1/messages", NO_REQUEST),
        // No path at all, or more than a path.
        (b"POST v1/messages", NO_REQUEST),
        (b"POST \\v1\\messages", NO_REQUEST),
        (b"POST ?beta=true", NO_REQUEST),
        (b"POST *", NO_PATH),
        (b"OPTIONS *", NO_PATH),
        (b"POST /v1/messages#x", NO_PATH),
        (b"POST /v1/messages?beta=true#/../admin", NO_PATH),
        (b"POST #/v1/messages", NO_REQUEST),
        (b"POST http://api.anthropic.com/v1/messages", NO_PATH),
        (b"POST https://api.anthropic.com/v1/messages", NO_PATH),
        (b"POST HTTP://192.0.2.1:81/v1/messages", NO_PATH),
        (b"POST http://me:key@192.0.2.1:81/v1/messages", NO_PATH),
        (b"POST file:///v1/messages", NO_REQUEST),
        (b"POST http:///v1/messages", NO_REQUEST),
        (b"POST api.anthropic.com:443", NO_PATH),
        (b"CONNECT api.anthropic.com:443", NO_PATH),
        (b"CONNECT /v1/messages", NO_PATH),
        (b"CONNECT [::1]:443", NO_PATH),
        (&long, NO_REQUEST),
    ];
    for (line, fate) in table {
        let rest =
            format!(" HTTP/1.1\r\nHost: 192.0.2.1:81\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{SECRET}");
        let (said, recorded) = relay.fate(&[line, rest.as_bytes()].concat(), fate.recorded).await;
        let met = Fate { status: status(&said), recorded };
        if met != *fate {
            wrong.push(format!("{:?}: {met:?}", String::from_utf8_lossy(&line[..line.len().min(80)])));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(relay.seen(), [""; 0]);
}

/// The first request of a connection is allowed, and others hide in it or behind it, for a reader who cuts them apart otherwise.
#[tokio::test]
async fn no_framing_smuggles_a_request_past_the_relay() {
    let hidden = format!(
        "POST /v1/admin HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let after_chunks = format!("0\r\n\r\n{hidden}");
    let in_chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let after_chunk = format!("1\r\nx\r\n0\r\nX-Trailer: 1\r\n\r\n{hidden}");
    let request = |head: &str, rest: &str| {
        format!("POST /v1/messages HTTP/1.1\r\nHost: 192.0.2.1:81\r\n{head}\r\n{rest}").into_bytes()
    };
    let relay = Relay::new().await;
    for (name, head, rest) in [
        ("two lengths", "Content-Length: 0\r\nContent-Length: 40\r\n", &hidden),
        ("a list of lengths", "Content-Length: 0, 40\r\n", &hidden),
        ("a length with a sign", "Content-Length: +0\r\n", &hidden),
        ("a length below nothing", "Content-Length: -1\r\n", &hidden),
        ("a length in hexadecimal", "Content-Length: 0x10\r\n", &hidden),
        ("an empty length", "Content-Length: \r\n", &hidden),
        ("a length that overflows", "Content-Length: 18446744073709551616\r\n", &hidden),
        ("a coding that is none", "Transfer-Encoding: xchunked\r\n", &after_chunks),
        ("a coding after chunks", "Transfer-Encoding: chunked, identity\r\n", &after_chunks),
        ("a coding with a control character", "Transfer-Encoding: \u{b}chunked\r\n", &after_chunks),
        ("a coding in quotes", "Transfer-Encoding: \"chunked\"\r\n", &after_chunks),
        ("a name with a space behind it", "Transfer-Encoding : chunked\r\n", &after_chunks),
        ("a folded line", "X-Fold: a\r\n b\r\nContent-Length: 0\r\n", &hidden),
        ("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", &after_chunks),
        ("a name with a NUL", "X\0: a\r\nContent-Length: 0\r\n", &hidden),
        ("a value with a NUL", "X: a\0b\r\nContent-Length: 0\r\n", &hidden),
        ("a bare carriage return", "X: a\rTransfer-Encoding: chunked\r\n", &after_chunks),
        ("no name", ": a\r\nContent-Length: 0\r\n", &hidden),
    ] {
        let (said, recorded) = relay.fate(&request(head, rest), Recorded::Hit).await;
        assert_eq!((status(&said), recorded), (400, Recorded::Hit), "{name}");
        assert_eq!(relay.seen(), [""; 0], "{name}");
    }
    for (name, words) in [
        ("another version", format!("POST /v1/messages HTTP/2.0\r\n\r\n{hidden}")),
        ("no version", format!("POST /v1/messages\r\n\r\n{hidden}")),
        ("two thousand headers", format!("POST /v1/messages HTTP/1.1\r\n{}\r\n{SECRET}", "a: b\r\n".repeat(2000))),
        ("a head without end", format!("POST /v1/messages HTTP/1.1\r\nX: {SECRET}{}", "x".repeat(100_000))),
    ] {
        let (said, recorded) = relay.fate(words.as_bytes(), Recorded::Hit).await;
        assert_eq!((status(&said), recorded), (400, Recorded::Hit), "{name}");
        assert_eq!(relay.seen(), [""; 0], "{name}");
    }
    let two_hosts = request("Host: 192.0.2.2\r\nConnection: close\r\nContent-Length: 13\r\n", SECRET);
    let (said, recorded) = relay.fate(&two_hosts, NO_PATH.recorded).await;
    assert_eq!((status(&said), recorded, relay.seen().len()), (400, NO_PATH.recorded, 0), "two hosts");

    for (name, head, rest, behind) in [
        ("a pipeline", "Content-Length: 0\r\n", hidden.as_str(), true),
        ("no framing", "", &hidden, true),
        ("chunks", "Transfer-Encoding: chunked\r\n", &after_chunks, true),
        ("a trailer", "Transfer-Encoding: chunked\r\nTrailer: X-Trailer\r\n", &after_chunk, true),
        ("chunks in other letters", "TRANSFER-ENCODING: ChunKed\r\n", &after_chunks, true),
        ("chunks twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &after_chunks, true),
        ("a length before chunks", "Content-Length: 4000\r\nTransfer-Encoding: chunked\r\n", &after_chunks, false),
        ("a length after chunks", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", &after_chunks, false),
        ("a request in a chunk", "Connection: close\r\nTransfer-Encoding: chunked\r\n", &in_chunk, false),
        (
            "an upgrade",
            "Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 0\r\n",
            &hidden,
            true,
        ),
        (
            "another method and place in headers",
            "X-HTTP-Method-Override: GET\r\nX-Original-URL: /v1/admin\r\nX-Rewrite-URL: /v1/admin\r\nContent-Length: 0\r\n",
            &hidden,
            true,
        ),
    ] {
        let relay = Relay::new().await;
        let said = say(relay.harness.relay, &request(head, rest), false).await;
        let said = String::from_utf8_lossy(&said);
        assert_eq!(relay.seen(), ["POST /v1/messages"], "{name}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1 + usize::from(behind), "{name}: {said}");
        assert_eq!(said.contains("HTTP/1.1 403"), behind, "{name}: {said}");
        if behind {
            let refused =
                relay.harness.model_request(|call| call.duration_ms.is_some() && call.path == "/v1/admin").await;
            assert_eq!(refused.refusal, Some(Refusal::PathNotAllowed), "{name}");
            assert_eq!(refused.secrets.len(), 1, "{name}: {refused:?}");
        }
    }
}
