//! A gateway on this machine: HTTP/1.1 and HTTP/2, with TLS or without. It says a word to the agent, and does what `do` in the body of
//! a plain client's request begins with.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use redroom::ModelProxy;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What every gateway here wants to be given. Made here and now: a sidecar is this program, with every constant in it.
pub(crate) static KEY: LazyLock<String> = LazyLock::new(|| format!("sk-gateway-{}-{}", std::process::id(), now()));

/// Without TLS, and with a certificate that only its own file vouches for.
pub(crate) static PLAIN: LazyLock<&'static Gateway> = LazyLock::new(|| Gateway::open("127.0.0.1:0", false));
pub(crate) static IPV6: LazyLock<&'static Gateway> = LazyLock::new(|| Gateway::open("[::1]:0", false));
pub(crate) static SECURE: LazyLock<&'static Gateway> = LazyLock::new(|| Gateway::open("127.0.0.1:0", true));

/// In milliseconds.
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) version: Version,
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) struct Gateway {
    address: SocketAddr,
    certificate: Option<PathBuf>,
    asked: Mutex<Vec<Asked>>,
    /// How many clients left before they were answered.
    left: watch::Sender<usize>,
}

impl Gateway {
    fn open(address: &'static str, tls: bool) -> &'static Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind(address).await.expect("a free port");
                let (acceptor, certificate) = if tls { secured() } else { (None, None) };
                let gateway: &'static Gateway = Box::leak(Box::new(Gateway {
                    address: listener.local_addr().expect("bound"),
                    certificate,
                    asked: Mutex::default(),
                    left: watch::Sender::new(0),
                }));
                sender.send(gateway).expect("somebody waits");
                while let Ok((stream, _)) = listener.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        match acceptor {
                            None => gateway.serve(TokioIo::new(stream)).await,
                            Some(acceptor) => {
                                if let Ok(stream) = acceptor.accept(stream).await {
                                    gateway.serve(TokioIo::new(stream)).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        receiver.recv().expect("the gateway opens")
    }

    async fn serve<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(&'static self, stream: S) {
        let service = service_fn(move |request| async move { Ok::<_, Infallible>(self.answer(request).await) });
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await;
    }

    /// What a run is told of it, with this prefix in its address.
    pub(crate) fn proxy(&self, prefix: &str) -> ModelProxy {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        let proxy = ModelProxy::new(format!("{scheme}://{}{prefix}", self.address)).header("x-api-key", KEY.as_str());
        match &self.certificate {
            None => proxy,
            Some(path) => proxy.ca(path),
        }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The requests of one run.
    pub(crate) fn asked_by(&self, run: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|asked| asked.headers.get("x-redroom-run").is_some_and(|id| id == run)).cloned().collect()
    }

    /// All requests, of whichever run.
    #[allow(dead_code, reason = "for what stands between this gateway and redroom, and says nothing of runs")]
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn left(&self) -> watch::Receiver<usize> {
        self.left.subscribe()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return plain(StatusCode::BAD_REQUEST, "") };
        let body = body.to_bytes();
        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
        let (version, line) = (head.version, format!("{} {path}", head.method));
        let asked = Asked { version, line, headers: head.headers, body: body.clone() };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        if head.uri.path().ends_with("/count_tokens") {
            return plain(StatusCode::NOT_FOUND, "nobody counts here");
        }
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        match said["do"].as_str().unwrap_or_default() {
            "TICK" => events(ticks()),
            "BREAK" => events(stream::iter([Ok("event: ping\n\n".into())]).chain(breaking_off())),
            "STALL" => events(stream::iter([Ok("event: ping\n\n".into())]).chain(stream::pending())),
            "MUTE" => {
                let _leaving = Leaving(&self.left);
                std::future::pending().await
            }
            "MOVE" => {
                let mut moved = plain(StatusCode::TEMPORARY_REDIRECT, "moved");
                for (name, value) in [("location", "/elsewhere"), ("set-cookie", "a=b"), ("x-kept", "1")] {
                    moved.headers_mut().insert(name, HeaderValue::from_static(value));
                }
                moved
            }
            _ => events(stream::iter([Ok(says("Heard.").into())])),
        }
    }
}

/// Counts a client that leaves.
struct Leaving<'a>(&'a watch::Sender<usize>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|left| *left += 1);
    }
}

fn secured() -> (Option<TlsAcceptor>, Option<PathBuf>) {
    let names = ["127.0.0.1".to_owned(), Ipv6Addr::LOCALHOST.to_string()];
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let file = tempfile::NamedTempFile::with_suffix(".pem").expect("a file");
    std::fs::write(file.path(), cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a key that fits");
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (_, path) = file.keep().expect("kept");
    (Some(TlsAcceptor::from(Arc::new(tls))), Some(path))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer
}

fn events(pieces: impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Response<Body> {
    let mut answer = Response::new(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

/// The end of an answer that comes to none, once what was before it is on its way.
fn breaking_off() -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::once(async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Err(std::io::ErrorKind::BrokenPipe.into())
    })
}

/// Six events, a third of a second apart, in pieces of one byte, with the time at which each was begun.
fn ticks() -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::iter(0..6)
        .then(|tick| async move {
            if tick > 0 {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let event = format!(": a comment\nevent: unknown\ndata: {}\n\n", now());
            stream::iter(event.into_bytes()).map(|byte| Ok(Bytes::copy_from_slice(&[byte])))
        })
        .flatten()
}

/// An answer of the model, as a stream of events.
fn says(text: &str) -> String {
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    [
        ("message_start", format!(r#","message":{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}"#)),
        ("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#.to_owned()),
        ("content_block_delta", format!(r#","index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#)),
        ("content_block_stop", r#","index":0"#.to_owned()),
        ("message_delta", format!(r#","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{usage}"#)),
        ("message_stop", String::new()),
    ]
    .map(|(name, fields)| format!("event: {name}\ndata: {{\"type\":\"{name}\"{fields}}}\n\n"))
    .concat()
}
