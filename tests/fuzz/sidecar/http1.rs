//! What a client sends in HTTP/1, read by the server that the sidecar has, beside what the sidecar reads of it by itself: where
//! a head ends, where a body ends, what was aimed at, which headers go on to a model.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::draw::chunks;
use crate::conversation::Fragmented;
use crate::relay::{call, headers};
use crate::wire::{CALL, GENERATION, Generation, MODEL_HEADERS, WITHHELD_HEADERS};
use crate::witness::{Memory, Pulse, Witness, chunked_length};

pub(super) fn run(sent: &[u8]) {
    let _ = chunked_length(sent);
    let Some(first) = first_request(sent) else { return };
    let end = usize::try_from(first.end_of_head.expect("a request has a head that ends")).unwrap();
    let (head, body) = sent.split_at(end);
    let line = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap();
    if let Some(path) = first.path {
        assert!(path.starts_with('/') && !path.contains('#'), "{path:?}");
        assert!(path.bytes().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii()), "{path:?}");
        // As it was sent, nothing normalized.
        assert_eq!(line.split(|byte| *byte == b' ').nth(1), Some(path.as_bytes()), "{}", line.escape_ascii());
        let hosts = head.split(|byte| *byte == b'\n').filter(|line| line.to_ascii_lowercase().starts_with(b"host:"));
        assert!(hosts.count() <= 1, "two hosts");
    }
    if let Some(passed) = first.passed {
        passed_on(&passed, &first.hops);
    }
    match (first.body, first.length) {
        (Some(read), Some(_)) => assert!(body.starts_with(&read), "a body is where its head ends"),
        (Some(read), None) => {
            let length = chunked_length(body).expect("a chunked body that was read to its end");
            assert_eq!(unchunked(&body[..length]), read);
        }
        (None, _) => {}
    }
}

/// What is known of the first request.
struct First {
    end_of_head: Option<u64>,
    path: Option<String>,
    /// What goes on to the model's side.
    passed: Option<HeaderMap>,
    /// Headers that concern this connection alone, by the client's own word.
    hops: Vec<String>,
    /// If it was said before.
    length: Option<u64>,
    /// If it came to its end.
    body: Option<Bytes>,
}

fn first_request(sent: &[u8]) -> Option<First> {
    let stream = Sent { chunks: chunks(sent).into_iter().rev().map(<[u8]>::to_vec).collect() };
    let witness = Witness::new(stream, Pulse::new());
    let memory = witness.memory().clone();
    let first = Arc::new(Mutex::new(None));
    let service = service_fn(|mut request: Request<Incoming>| {
        let (memory, first) = (memory.clone(), first.clone());
        async move {
            if first.lock().unwrap().is_none() {
                let known = known(&mut request, &memory);
                *first.lock().unwrap() = Some(known);
                let body = request.into_body().collect().await.ok().map(|body| body.to_bytes());
                first.lock().unwrap().as_mut().unwrap().body = body;
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut server = hyper::server::conn::http1::Builder::new();
    let served = server.half_close(true).keep_alive(false).serve_connection(TokioIo::new(witness), service);
    // Whatever comes of it.
    let _ = runtime.block_on(served);
    first.lock().unwrap().take()
}

fn known(request: &mut Request<Incoming>, memory: &Memory) -> First {
    memory.understood();
    if let Some(target) = memory.target_with_fragment() {
        request.extensions_mut().insert(Fragmented(target));
    }
    let path = call::path(request).map(str::to_owned);
    let passed = path.as_deref().and_then(|path| headers::upward(request, path, Generation(7), 11));
    let length = request.body().size_hint().exact();
    let named = request.headers().get_all("connection").iter().filter_map(|value| value.to_str().ok());
    let hops = named.flat_map(|names| names.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    First { end_of_head: memory.end_of_head(), path, passed, hops, length, body: None }
}

/// Nothing that an agent says can pass for what redroom says; neither credentials nor what is about the connection pass for the
/// model's headers.
fn passed_on(headers: &HeaderMap, hops: &[String]) {
    for (name, value) in headers {
        let name = name.as_str();
        if let Some(theirs) = name.strip_prefix(MODEL_HEADERS) {
            assert!(!theirs.starts_with("x-redroom-") && !theirs.starts_with("proxy-"), "{name}");
            assert!(!hops.iter().any(|hop| hop == theirs), "{name} is about the connection");
            for never in ["authorization", "cookie", "x-api-key", "host", "connection", "transfer-encoding", "upgrade"]
            {
                assert_ne!(theirs, never);
            }
        } else if !name.starts_with(WITHHELD_HEADERS) {
            assert!([GENERATION, CALL, "redroom-method", "redroom-target"].contains(&name), "{name}: {value:?}");
        }
    }
    for (ours, said) in [(GENERATION, "7"), (CALL, "11")] {
        assert!(headers.get_all(ours).iter().map(|value| value.to_str().unwrap()).eq([said]));
    }
}

/// The content of a chunked body that is known to be one.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let digits = body[..end].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..digits]).unwrap(), 16).unwrap();
        if size == 0 {
            return content;
        }
        content.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
}

/// A client that has said all; what it is answered goes nowhere.
struct Sent {
    /// The last comes first.
    chunks: Vec<Vec<u8>>,
}

impl AsyncRead for Sent {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if let Some(mut chunk) = self.chunks.pop() {
            let rest = chunk.split_off(chunk.len().min(buffer.remaining()));
            buffer.put_slice(&chunk);
            self.chunks.extend((!rest.is_empty()).then_some(rest));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
