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
use crate::outbound::loopback::{Server, Tunnels, nobody, ok};
use crate::outbound::{Body, Client, Proxies, full};

fn open(proxy: ModelProxy) -> Forward {
    proxy.open(&Client::new(Proxies::none()).unwrap()).unwrap()
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
async fn what_a_user_got_wrong_about_tls_is_told_in_a_sentence() {
    let detail = async |proxy: ModelProxy| {
        let error = open(proxy).answer(call(full("x"))).await.unwrap_err();
        assert_eq!((error.by(), error.code()), (By::ModelProxy, "network_error"));
        error.detail().to_owned()
    };
    let plain = Server::noting(|| ok("{}")).await;
    let said = detail(ModelProxy::new(plain.url.replace("http:", "https:"))).await;
    assert!(said.contains("does not speak TLS") && said.contains("write http://"), "{said}");
    let deaf = Server::hanging_up().await;
    let said = detail(ModelProxy::new(deaf.url.replace("http:", "https:"))).await;
    assert!(said.contains("instead of speaking TLS"), "{said}");
    let (secure, _) = Server::tls(|_| String::new()).await;
    let said = detail(ModelProxy::new(&secure.url)).await;
    assert!(said.contains("is not trusted here") && said.contains("`ca`"), "{said}");
    let said = detail(ModelProxy::new(secure.url.replace("https:", "http:"))).await;
    assert!(said.contains("is not HTTP; write https://"), "{said}");
}

#[tokio::test]
async fn a_gateway_with_a_certificate_of_its_own_is_trusted_by_its_file() {
    let (server, certificate) = Server::tls(|version| format!("{version:?}")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("team.pem");
    std::fs::write(&path, pem(&certificate)).unwrap();
    let answer = open(ModelProxy::new(&server.url).ca(&path)).answer(call(full("x"))).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "HTTP/2.0");
    let proxy: ModelProxy =
        toml::from_str(&format!("base_url = \"{}\"\nca = \"{}\"\nsilence = 7", server.url, path.display())).unwrap();
    assert_eq!(proxy, ModelProxy::new(&server.url).ca(&path).silence(Duration::from_secs(7)));
    std::fs::remove_file(&path).unwrap();
    let error = proxy.open(&Client::new(Proxies::none()).unwrap()).unwrap_err();
    assert_eq!((error.by(), error.code()), (By::ModelProxy, "invalid_model_proxy"));
    assert!(error.detail().contains("team.pem cannot be read"), "{error}");
}

fn pem(certificate: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

#[tokio::test]
async fn a_service_elsewhere_is_reached_through_the_proxy_of_the_network() {
    let (server, certificate) = Server::tls(|version| format!("{version:?}")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("team.pem");
    std::fs::write(&path, pem(&certificate)).unwrap();
    let port = server.url.rsplit(':').next().unwrap();
    // A name that only the proxy knows; the certificate is the server's own, whatever it is called.
    let url = format!("https://gateway.internal.example:{port}");
    let asked = async |proxy: &Tunnels, credentials: &str| {
        let client = Client::new(Proxies::new(Some(&format!("http://{credentials}{}", proxy.address)), None)).unwrap();
        let forward = ModelProxy::new(&url).ca(&path).open(&client).unwrap();
        forward.answer(call(full("x"))).await
    };
    let proxy = Tunnels::to(&server.url["https://".len()..], Some("me:hunter+2")).await;
    let answer = asked(&proxy, "me:hunter%2B2@").await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "HTTP/2.0");
    let head = proxy.asked().remove(0);
    assert!(head.starts_with(&format!("CONNECT gateway.internal.example:{port} HTTP/1.1\r\n")), "{head}");
    assert!(!head.contains("x-api-key") && !head.contains("x-redroom-run"), "{head}");
    let error = asked(&proxy, "me:wrong-7731@").await.unwrap_err();
    assert!(error.detail().contains("wants a user and a password"), "{error}");
    assert!(!format!("{error:?}").contains("wrong-7731"));
    let closed = Tunnels::to(&nobody().await["http://".len()..], None).await;
    let error = asked(&closed, "").await.unwrap_err();
    assert!(error.detail().contains("did not connect") && error.detail().contains("NO_PROXY"), "{error}");
    let other = Client::new(Proxies::new(Some("socks5://p:1"), None)).unwrap();
    let error = ModelProxy::new(&url).open(&other).unwrap_err();
    assert!(error.detail().contains("socks5") && error.detail().contains("HTTPS_PROXY"), "{error}");
    assert!(ModelProxy::new("http://localhost:1").open(&other).is_ok());
}

#[tokio::test]
async fn answers_past_their_bounds_are_errors() {
    for (kind, newline, says) in [
        ("text/event-stream", false, "a line of"),
        ("text/event-stream", true, "more than 64 MB"),
        ("application/json", false, "more than 64 MB"),
    ] {
        let server = Server::start(move |_| async move {
            let piece =
                Bytes::from(if newline { [vec![b'x'; 65_535], vec![b'\n']].concat() } else { vec![b'x'; 65_536] });
            let endless = stream::repeat_with(move || Ok(Frame::data(piece.clone())));
            let mut response = Response::new(StreamBody::new(endless).boxed_unsync());
            response.headers_mut().insert("content-type", HeaderValue::from_static(kind));
            response
        })
        .await;
        let mut body = open(ModelProxy::new(&server.url)).answer(call(full("x"))).await.unwrap().into_body();
        let error = loop {
            if let Err(error) = piece(&mut body).await {
                break error;
            }
        };
        assert_eq!((error.by(), error.code()), (By::ModelProxy, "answer_too_large"));
        assert!(error.detail().contains(says), "{error}");
    }
    let heavy = Server::start(|_| async {
        let mut response = ok("{}");
        response.headers_mut().insert("x-heavy", HeaderValue::try_from("x".repeat(80_000)).unwrap());
        response
    })
    .await;
    let error = open(ModelProxy::new(&heavy.url)).answer(call(full("x"))).await.unwrap_err();
    assert_eq!(error.code(), "answer_too_large");
}

#[tokio::test]
async fn bytes_of_any_kind_are_a_sign_of_life() {
    let server = Server::start(|_| async {
        let pings = stream::unfold(0, |sent| async move {
            tokio::time::sleep(Duration::from_millis(250)).await;
            (sent < 10).then(|| (Ok(Frame::data(Bytes::from_static(b": ping\n\n"))), sent + 1))
        });
        Response::new(StreamBody::new(pings).boxed_unsync())
    })
    .await;
    let proxy = open(ModelProxy::new(&server.url).silence(Duration::from_secs(2)));
    let whole = proxy.answer(call(full("x"))).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(whole.to_bytes().len(), 80);
    for limit in [Duration::ZERO, Duration::from_secs(1_000_000)] {
        let error =
            ModelProxy::new("http://h").silence(limit).open(&Client::new(Proxies::none()).unwrap()).unwrap_err();
        assert!(error.detail().contains("silence"), "{error}");
    }
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
    let impatient = |server: &Server| Forward { silence: Duration::from_secs(1), ..open(ModelProxy::new(&server.url)) };
    let mute = Server::raw(b"", false).await;
    let error = impatient(&mute).answer(call(full("x"))).await.unwrap_err();
    assert_eq!((error.by(), error.code()), (By::ModelProxy, "timeout"));
    assert!(error.call().unwrap().duration_ms.unwrap() >= 1000);
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
        let error = ModelProxy::new(base).open(&Client::new(Proxies::none()).unwrap()).unwrap_err();
        assert_eq!((error.by(), error.code()), (By::ModelProxy, "invalid_model_proxy"));
        assert!(error.detail().contains(says) && !error.detail().contains("hunter2"), "{base}: {error}");
    }
    let bad_header =
        ModelProxy::new("https://h").header("x-api-key", "hunter2\n").open(&Client::new(Proxies::none()).unwrap());
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
