//! Services on this machine for tests: well-behaved ones that note what they are asked, and ones that speak raw bytes.

use std::future::Future;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::{Body, full};

/// A service on the loopback address; ends when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    /// Answers every request with what `handler` makes of it; the handler reads the body.
    pub(crate) async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let handler = handler.clone();
                let service = service_fn(move |request| {
                    let answer = handler(request);
                    async move { Ok::<_, std::convert::Infallible>(answer.await) }
                });
                connections.spawn(async move {
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Server { url, seen: Arc::default(), _task: AbortOnDropHandle::new(task) }
    }

    /// Offers HTTP/2 and HTTP/1.1 over TLS, and answers with what `says` makes of the version; also gives its certificate.
    pub(crate) async fn tls(says: fn(http::Version) -> String) -> (Self, CertificateDer<'static>) {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "gateway.internal.example".to_owned()])
                .unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let service = service_fn(move |request: Request<Incoming>| async move {
                    Ok::<_, std::convert::Infallible>(Response::new(full(says(request.version()))))
                });
                tokio::spawn(async move {
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (Server { url, seen: Arc::default(), _task: AbortOnDropHandle::new(task) }, cert.der().clone())
    }

    /// Notes every request with its whole body and gives the same answer to each.
    pub(crate) async fn noting(answer: impl Fn() -> Response<Body> + Clone + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Request<Bytes>>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let server = Server::start(move |request| {
            let (notes, answer) = (Arc::clone(&notes), answer.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                notes.lock().unwrap().push(Request::from_parts(head, body));
                answer()
            }
        })
        .await;
        Server { seen, ..server }
    }

    /// Reads a request's head from each connection, sends these bytes, then a space every so often, until nobody listens.
    pub(crate) async fn dripping(bytes: &'static [u8], every: std::time::Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
                stream.write_all(bytes).await.unwrap();
                let mut beat = tokio::time::interval(every);
                while stream.write_all(b" ").await.is_ok() {
                    beat.tick().await;
                }
            }
        });
        Server { url, seen: Arc::default(), _task: AbortOnDropHandle::new(task) }
    }

    /// Reads a request's head from each connection, sends these bytes, and closes, or keeps the connection open.
    pub(crate) async fn raw(bytes: &'static [u8], close: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
                stream.write_all(bytes).await.unwrap();
                if close {
                    stream.shutdown().await.unwrap();
                } else {
                    open.push(stream);
                }
            }
        });
        Server { url, seen: Arc::default(), _task: AbortOnDropHandle::new(task) }
    }

    /// Hears what each connection says first, and closes it.
    pub(crate) async fn hanging_up() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read_buf(&mut Vec::new()).await;
            }
        });
        Server { url, seen: Arc::default(), _task: AbortOnDropHandle::new(task) }
    }

    /// What it was asked.
    pub(crate) fn seen(&self) -> Vec<Request<Bytes>> {
        self.seen.lock().unwrap().clone()
    }
}

/// A proxy that digs tunnels, all to the same place; ends when dropped.
pub(crate) struct Tunnels {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Tunnels {
    /// For whoever gives these credentials, or for everybody.
    pub(crate) async fn to(place: &str, credentials: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (place, notes) = (place.to_owned(), asked.clone());
        let wanted = credentials.map(|pair| {
            format!("Proxy-Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
                let head = String::from_utf8(head).unwrap();
                let allowed = wanted.as_ref().is_none_or(|wanted| head.contains(wanted));
                notes.lock().unwrap().push(head);
                if !allowed {
                    stream.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n").await.unwrap();
                    continue;
                }
                let Ok(mut far) = tokio::net::TcpStream::connect(&place).await else {
                    stream.write_all(b"HTTP/1.1 502 Nobody there\r\n\r\n").await.unwrap();
                    continue;
                };
                stream.write_all(b"HTTP/1.1 200 Go on\r\n\r\n").await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut far).await });
            }
        });
        Tunnels { address, asked, _task: AbortOnDropHandle::new(task) }
    }

    /// The heads of the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// An address of this machine that nobody listens on.
pub(crate) async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

pub(crate) fn ok(body: &'static str) -> Response<Body> {
    Response::new(full(body))
}
