//! The road to a service: straight, or through a tunnel that a proxy digs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::Proxies;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to a service, without the service's own TLS.
#[derive(Clone)]
pub(super) struct Road {
    direct: HttpConnector,
    to_proxy: HttpsConnector<HttpConnector>,
    proxies: Arc<Proxies>,
}

impl Road {
    pub(super) fn new(direct: HttpConnector, to_proxy: HttpsConnector<HttpConnector>, proxies: Arc<Proxies>) -> Self {
        Road { direct, to_proxy, proxies }
    }
}

impl Service<Uri> for Road {
    type Response = Stream;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, AnyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.direct.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        match self.proxies.intercept(&address) {
            None => {
                let connecting = self.direct.call(address);
                Box::pin(async move { Ok(MaybeHttpsStream::Http(connecting.await?)) })
            }
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy.clone());
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                let connecting = tunnel.call(address);
                Box::pin(async move { Ok(connecting.await?) })
            }
        }
    }
}
