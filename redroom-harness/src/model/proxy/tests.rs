//! Requests that are sent on, seen from both ends.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::mpsc;

use super::{Forward, ModelProxy, NoModelAccess};
use crate::error::{By, Error};
use crate::model::{ModelCall, Upstream as _};
use crate::outbound::loopback::{Server, nobody, ok};
use crate::outbound::{Body, Client, full};

fn open(proxy: ModelProxy) -> Forward {
    proxy.open(&Client::new().unwrap()).unwrap()
}

fn call(body: Body) -> ModelCall {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-api-key", "placeholder"),
        ("authorization", "Bearer placeholder"),
        ("host", "192.0.2.1:81"),
        ("connection", "x-private"),
        ("x-private", "1"),
        ("accept-encoding", "gzip, br"),
        ("anthropic-version", "2023-06-01"),
        ("x-redroom-run", "forged"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    ModelCall {
        run: "run-1".into(),
        method: Method::POST,
        target: "/v1/messages?beta=true".into(),
        headers,
        withheld: HeaderMap::new(),
        body,
    }
}

/// A body that is fed piece by piece.
fn fed() -> (mpsc::Sender<Result<Bytes, Error>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    let pieces =
        stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|piece| (piece, receiver)) });
    (sender, StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync())
}

async fn piece(body: &mut Body) -> Result<Bytes, Error> {
    body.frame().await.expect("more of the body").map(|frame| frame.into_data().unwrap())
}

#[tokio::test]
async fn a_request_arrives_below_the_prefix_with_the_headers_of_the_proxy_in_place_of_the_agents() {
    for (prefix, path) in
        [("", ""), ("/", ""), ("/pre/fix", "/pre/fix"), ("/pre/fix/", "/pre/fix"), ("/a%2Fb", "/a%2Fb")]
    {
        let server = Server::noting(|| ok("{}")).await;
        let proxy = open(ModelProxy::new(format!("{}{prefix}", server.url)).header("X-Api-Key", "hunter2"));
        let response = proxy.answer(call(full("hello"))).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
        let seen = &server.seen()[0];
        assert_eq!(seen.uri().to_string(), format!("{path}/v1/messages?beta=true"));
        assert_eq!((seen.method(), seen.body().as_ref()), (&Method::POST, &b"hello"[..]));
        let mut names: Vec<_> = seen.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let want = ["accept-encoding", "anthropic-version", "content-length", "host", "x-api-key", "x-redroom-run"];
        assert_eq!(names, want);
        assert_eq!(
            (&seen.headers()["x-api-key"], &seen.headers()["x-redroom-run"]),
            (&HeaderValue::from_static("hunter2"), &HeaderValue::from_static("run-1"))
        );
        assert_eq!(seen.headers()["host"], server.url["http://".len()..]);
        assert_eq!(seen.headers()["accept-encoding"], "identity");
    }
}

#[tokio::test]
async fn an_answer_keeps_its_status_and_headers_and_loses_its_cookies_and_those_of_the_connection() {
    let server = Server::noting(|| {
        let mut response = ok("moved");
        *response.status_mut() = http::StatusCode::TEMPORARY_REDIRECT;
        for (name, value) in
            [("location", "http://192.0.2.7/"), ("set-cookie", "a=b"), ("keep-alive", "timeout=5"), ("request-id", "r")]
        {
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        response
    })
    .await;
    let response = open(ModelProxy::new(&server.url)).answer(call(full("x"))).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["location"].to_str().unwrap()),
        (307, "http://192.0.2.7/")
    );
    assert_eq!(response.headers()["request-id"], "r");
    assert!(!response.headers().contains_key("set-cookie") && !response.headers().contains_key("keep-alive"));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "moved");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn both_bodies_stream_piece_by_piece() {
    let server = Server::start(|request: http::Request<hyper::body::Incoming>| async move {
        // An echo: every piece comes back before the next one is sent.
        let body = request.into_body().map_err(|error| Error::redroom("echo", error.to_string()));
        Response::new(body.boxed_unsync())
    })
    .await;
    let (sender, body) = fed();
    sender.send(Ok(Bytes::from("event: one\n\n"))).await.unwrap();
    let mut answer = open(ModelProxy::new(&server.url)).answer(call(body)).await.unwrap().into_body();
    assert_eq!(piece(&mut answer).await.unwrap(), "event: one\n\n");
    for text in [": a comment\n\n", "e", "v", "ent: unheard-of\n\n"] {
        sender.send(Ok(Bytes::from(text))).await.unwrap();
        assert_eq!(piece(&mut answer).await.unwrap(), text);
    }
    drop(sender);
    assert!(answer.frame().await.is_none());
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_without_its_headers() {
    let url = nobody().await;
    let proxy = open(ModelProxy::new(&url).header("x-api-key", "hunter2"));
    let error = proxy.answer(call(full("x"))).await.unwrap_err();
    assert_eq!((error.by(), error.code()), (By::ModelProxy, "network_error"));
    assert!(error.detail().contains(&url) && error.detail().contains("refused"), "{error}");
    assert!(!format!("{error:?}{proxy:?}").contains("hunter2"));
    let mute = Server::raw(b"", true).await;
    let error = open(ModelProxy::new(&mute.url)).answer(call(full("x"))).await.unwrap_err();
    assert_eq!(error.code(), "network_error");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_in_its_body() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nevent"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n",
    ] {
        let server = Server::raw(bytes, true).await;
        let mut body = open(ModelProxy::new(&server.url)).answer(call(full("x"))).await.unwrap().into_body();
        assert_eq!(piece(&mut body).await.unwrap(), "event");
        let error = piece(&mut body).await.unwrap_err();
        assert_eq!((error.by(), error.code()), (By::ModelProxy, "upstream_aborted"));
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn a_proxy_that_falls_silent_is_given_up_before_its_answer_and_in_the_middle() {
    let impatient =
        |server: &Server| Forward { silence: Duration::from_millis(200), ..open(ModelProxy::new(&server.url)) };
    let mute = Server::raw(b"", false).await;
    let error = impatient(&mute).answer(call(full("x"))).await.unwrap_err();
    assert_eq!((error.by(), error.code()), (By::ModelProxy, "timeout"));
    assert!(error.call().unwrap().duration_ms.unwrap() >= 200);
    let stalling = Server::raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nevent", false).await;
    let mut body = impatient(&stalling).answer(call(full("x"))).await.unwrap().into_body();
    assert_eq!(piece(&mut body).await.unwrap(), "event");
    assert_eq!(piece(&mut body).await.unwrap_err().code(), "timeout");
}

#[tokio::test]
async fn an_agent_that_breaks_its_request_off_is_not_the_proxys_fault() {
    let server = Server::start(|request: http::Request<hyper::body::Incoming>| async move {
        let _ = request.into_body().collect().await;
        ok("{}")
    })
    .await;
    let (sender, body) = fed();
    sender.send(Ok(Bytes::from("hel"))).await.unwrap();
    let feeding = async { sender.send(Err(Error::new(By::Sidecar, "request_aborted", "the agent hung up"))).await };
    let proxy = open(ModelProxy::new(&server.url));
    let (answer, fed) = tokio::join!(proxy.answer(call(body)), feeding);
    fed.unwrap();
    assert_eq!(answer.unwrap_err().code(), "request_aborted");
}

#[test]
fn what_cannot_be_a_base_url_says_what_to_write() {
    for (base, says) in [
        ("https://h/v1", "write \"https://h\""),
        ("https://h/v1/", "write \"https://h\""),
        ("https://h/pre/v1/messages", "write \"https://h/pre\""),
        ("https://h/?key=hunter2", "header"),
        ("https://hunter2@h/", "header"),
        ("localhost:4000", "only http and https"),
        ("", "https://gateway.example.com"),
    ] {
        let error = ModelProxy::new(base).open(&Client::new().unwrap()).unwrap_err();
        assert_eq!((error.by(), error.code()), (By::ModelProxy, "invalid_model_proxy"));
        assert!(error.detail().contains(says) && !error.detail().contains("hunter2"), "{base}: {error}");
    }
    let bad_header = ModelProxy::new("https://h").header("x-api-key", "hunter2\n").open(&Client::new().unwrap());
    assert!(bad_header.unwrap_err().detail().contains("x-api-key"));
}

#[test]
fn a_proxy_can_stand_in_a_file_and_its_key_is_not_shown() {
    let proxy: ModelProxy =
        toml::from_str("base_url = \"https://h/pre\"\nheaders = { \"x-api-key\" = \"hunter2\" }").unwrap();
    assert_eq!(proxy, ModelProxy::new("https://h/pre").header("x-api-key", "hunter2"));
    assert!(!format!("{proxy:?}").contains("hunter2"));
    assert!(toml::from_str::<ModelProxy>("base_url = \"https://h\"\nheader = {}").is_err());
}

#[tokio::test]
async fn without_any_access_the_error_says_what_to_do() {
    let error = NoModelAccess.answer(call(full("x"))).await.unwrap_err();
    assert_eq!(error.code(), "missing_model_access");
    assert!(error.detail().contains("ANTHROPIC_API_KEY") && error.detail().contains("model_proxy"));
}
