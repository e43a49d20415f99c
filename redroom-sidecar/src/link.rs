//! The link to the harness: HTTP/2 over one byte stream, of which the sidecar is the client.
//!
//! Everything shares one stream, so nothing may be able to fill it. Each HTTP/2 stream may have [`STREAM_WINDOW`] bytes
//! under way that its reader has not taken, the connection as many as all streams together: a model answer that the agent
//! does not read, or a request that an upstream does not take, stops itself and nothing else. Were the connection's window
//! smaller, a few of them would stop `/session`, and with it every observation and command.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::pipe::Piped;
use crate::session::ReportStream;

/// Bytes that one HTTP/2 stream may have under way.
const STREAM_WINDOW: u32 = 64 * 1024;

/// How many requests the link carries at once: the session, and more than relay and hook have places.
const STREAMS: u32 = 160;

/// Bytes that all streams together may have under way.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// The headers that a model request, and its answer, may have in all.
const HEADERS: u32 = 256 * 1024;

/// Where the link's requests go; HTTP/2 wants a host in it.
pub(crate) const SESSION: &str = "http://harness/session";
pub(crate) const MODEL: &str = "http://harness/model";
pub(crate) const HOOK: &str = "http://harness/hook";

/// What the sidecar sends.
pub(crate) type Outgoing = Either<ReportStream, Either<Full<Bytes>, Piped>>;

/// The sidecar's end of the link.
#[derive(Clone)]
pub(crate) struct Link(http2::SendRequest<Outgoing>);

impl Link {
    /// Begins to speak. The second part has to be driven; its end is the link's.
    pub(crate) async fn open<L>(
        stream: L,
    ) -> hyper::Result<(Self, impl Future<Output = hyper::Result<()>> + Send + 'static)>
    where
        L: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS)
            // A stream that the agent's leaving reset must not count for as long as the default, or the harness's next
            // frames for it would end the link.
            .max_concurrent_reset_streams(STREAMS as usize)
            .max_local_error_reset_streams(None)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok((Link(sender), connection))
    }

    /// Sends a request for which the body is there, or is fed while the answer is read.
    pub(crate) async fn post(
        &self,
        path: &'static str,
        headers: HeaderMap,
        body: Outgoing,
    ) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        *request.headers_mut() = headers;
        self.0.clone().send_request(request).await
    }
}

/// The harness's end of the link: an HTTP/2 server with the windows and limits that go with the sidecar's.
pub fn harness_http2() -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        // An agent that leaves its requests as fast as it makes them resets streams as fast: that must not end the link.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_local_error_reset_streams(None);
    builder
}
