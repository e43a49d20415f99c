//! The fake web: every request to any name or address becomes a hit, is answered from what is planted, and is searched whole.
//!
//! A hit is reported before its answer is chosen, and again when more of it is known. What does not come to a request at all
//! (another protocol, a broken handshake, a connection that says nothing) is a hit too.

mod open_hit;
mod tap;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::listen::Connection;
use crate::tenancy::Tenancy;
use crate::uplink::Uplink;
use crate::wire::{Hit, Octets, Part, Protocol};
use open_hit::OpenHit;
use tap::{Tap, Tapped};

/// How much of a body, or of bytes that are no request, is kept, in bytes. All of it is searched.
pub(crate) const KEPT: usize = 64 * 1024;

/// How long a connection may take to say what it wants.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// What all requests of one connection share.
#[derive(Clone)]
struct Visit {
    tenancy: Arc<Tenancy>,
    uplink: Uplink,
    meant: SocketAddr,
    tls: bool,
    server_name: Option<String>,
}

/// Serves a connection to port 80.
pub(crate) async fn serve_plain(connection: Connection, uplink: Uplink) {
    let Connection { stream, meant, tenancy, permit } = connection;
    let visit = Visit { tenancy, uplink, meant, tls: false, server_name: None };
    visit.serve(stream).await;
    drop(permit);
}

pub(crate) use tls::serve as serve_tls;

impl Visit {
    /// Serves requests until the connection ends.
    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let (stream, tapped) = Tap::new(stream, self.tenancy.secrets().scanner());
        let service = service_fn({
            let (visit, tapped) = (self.clone(), tapped.clone());
            move |request| {
                tapped.request_came();
                let (visit, tapped) = (visit.clone(), tapped.clone());
                async move { Ok::<_, Infallible>(visit.answer(request, &tapped).await) }
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(256 * 1024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(64)
            .max_header_list_size(128 * 1024)
            .keep_alive_interval(Some(Duration::from_secs(20)));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        // What has not said anything by then will be told to go; hyper's own limit starts with the first byte.
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = tapped.silent_for(HEAD_PATIENCE) => {
                connection.as_mut().graceful_shutdown();
                Ok(())
            }
        };
        let fault = match served {
            Ok(()) => "the connection came to no request".to_owned(),
            Err(error) => format!("not a request that HTTP knows: {error}"),
        };
        self.leftover(&tapped, fault).await;
    }

    /// What a connection carried beside its requests: all of it, if there was none; else only if it holds a secret that no
    /// request held.
    async fn leftover(&self, tapped: &Tapped, fault: String) {
        let rest = tapped.take();
        if rest.requests > 0 && !rest.matches.iter().any(|found| !tapped.was_reported(found)) {
            return;
        }
        let mut hit = self.new_hit(Protocol::Other, self.meant.ip().to_string());
        hit.fault = Some(fault);
        hit.body_bytes = rest.total;
        hit.truncated = rest.total > rest.kept.len() as u64;
        hit.body = Octets(rest.kept);
        hit.complete = true;
        if let Some(name) = &self.server_name {
            self.tenancy.search(Part::Host, name.as_bytes(), &mut hit.secrets);
        }
        crate::tenancy::add(&mut hit.secrets, Part::Body, &rest.matches);
        self.uplink
            .report(&crate::wire::Report::Hit { generation: self.tenancy.generation(), hit: Box::new(hit) })
            .await;
    }

    fn new_hit(&self, protocol: Protocol, host: String) -> Hit {
        let blocked = !self.tenancy.covers(&host);
        let mut hit = Hit::new(self.tenancy.next_hit(), self.tenancy.at_ms(), protocol, host, self.meant, blocked);
        hit.server_name = self.server_name.clone();
        hit
    }

    async fn answer(&self, request: Request<Incoming>, tapped: &Tapped) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let protocol = if self.tls { Protocol::Https } else { Protocol::Http };
        let authority = authority(&head.uri, &head.headers);
        let host = authority
            .as_deref()
            .and_then(host_of)
            .or_else(|| self.server_name.clone())
            .unwrap_or_else(|| self.meant.ip().to_string());
        let mut hit = self.new_hit(protocol, host);
        hit.method = head.method.as_str().to_owned();
        hit.path = head.uri.path_and_query().map_or_else(String::new, |path| path.as_str().to_owned());
        hit.headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), Octets(value.as_bytes().to_vec())))
            .collect();
        let names = [authority.as_deref(), self.server_name.as_deref(), Some(hit.host.as_str())];
        for name in names.into_iter().flatten() {
            self.tenancy.search(Part::Host, name.as_bytes(), &mut hit.secrets);
        }
        let target = format!("{} {}", hit.method, hit.path);
        self.tenancy.search(Part::Target, target.as_bytes(), &mut hit.secrets);
        self.tenancy.search_headers(&hit.headers, &mut hit.secrets);

        let mut open = OpenHit::report(self.tenancy.clone(), self.uplink.clone(), hit).await;
        open.read(body).await;
        tapped.reported(&open.hit.secrets);
        let response = self.choose(&open.hit, &head.method);
        open.close(response.status().as_u16()).await;
        response
    }

    /// Chooses the answer; the hit is on record by now.
    fn choose(&self, hit: &Hit, method: &Method) -> Response<Full<Bytes>> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if hit.blocked && !self.tenancy.catches_all() {
            return text(StatusCode::NOT_FOUND, "not found\n", method);
        }
        match self.tenancy.page(&hit.host, &hit.path).filter(|_| reads) {
            Some(page) => {
                let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::OK);
                let content_type = HeaderValue::from_str(&page.content_type);
                let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
                respond(status, content_type, page.body.0.clone().into(), method)
            }
            None if reads => text(StatusCode::NOT_FOUND, "not found\n", method),
            None => text(StatusCode::OK, "ok\n", method),
        }
    }
}

fn text(status: StatusCode, body: &'static str, method: &Method) -> Response<Full<Bytes>> {
    respond(status, HeaderValue::from_static("text/plain; charset=utf-8"), Bytes::from_static(body.as_bytes()), method)
}

fn respond(status: StatusCode, kind: HeaderValue, body: Bytes, method: &Method) -> Response<Full<Bytes>> {
    let length = body.len();
    let mut response = Response::new(Full::new(if *method == Method::HEAD { Bytes::new() } else { body }));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// The authority that a request names: its target's, else its `Host`.
fn authority(uri: &http::Uri, headers: &HeaderMap) -> Option<String> {
    if let Some(authority) = uri.authority() {
        return Some(authority.as_str().to_owned());
    }
    let host = headers.get(header::HOST)?;
    Some(String::from_utf8_lossy(host.as_bytes()).into_owned())
}

/// The host of an authority: lower case, without user, port, brackets or final dot.
fn host_of(authority: &str) -> Option<String> {
    let authority = authority.rsplit('@').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        },
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_what_is_beside_it() {
        for (authority, host) in [
            ("Docs.Redroom.TEST", "docs.redroom.test"),
            ("docs.redroom.test:443", "docs.redroom.test"),
            ("user:pw@docs.redroom.test.", "docs.redroom.test"),
            ("[2606:4700::1111]:80", "2606:4700::1111"),
            ("1.1.1.1:80", "1.1.1.1"),
            ("evil.com@docs.redroom.test", "docs.redroom.test"),
        ] {
            assert_eq!(host_of(authority).as_deref(), Some(host), "{authority}");
        }
        assert_eq!(host_of(""), None);
        assert_eq!(host_of(":80"), None);
    }
}
