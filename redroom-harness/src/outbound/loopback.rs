//! Services on this machine for tests: well-behaved ones that note what they are asked, and ones that speak raw bytes.

use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
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

    /// What it was asked.
    pub(crate) fn seen(&self) -> Vec<Request<Bytes>> {
        self.seen.lock().unwrap().clone()
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
