//! TLS in front of the fake web: a leaf for whatever name or address was meant; a handshake that fails is a hit of its own.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use tokio_rustls::LazyConfigAcceptor;

use super::tap::Tap;
use super::{HEAD_PATIENCE, Visit};
use crate::authority::Subject;
use crate::listen::Connection;
use crate::uplink::Uplink;

/// Serves a connection to port 443.
pub(crate) async fn serve(connection: Connection, uplink: Uplink) {
    let Connection { stream, meant, tenancy, permit } = connection;
    let mut visit = Visit { tenancy, uplink, meant, tls: true, server_name: None };
    let (stream, tapped) = Tap::new(stream, visit.tenancy.secrets().scanner());
    let handshake = async {
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await;
        let start = hello.map_err(|error| format!("no TLS: {error}"))?;
        visit.server_name = start.client_hello().server_name().map(str::to_ascii_lowercase);
        let config = config(&visit, &start.client_hello())?;
        start.into_stream(config).await.map_err(|error| format!("the TLS handshake failed: {error}"))
    };
    match tokio::time::timeout(HEAD_PATIENCE, handshake).await {
        Ok(Ok(stream)) => visit.serve(stream).await,
        Ok(Err(fault)) => visit.leftover(&tapped, fault).await,
        Err(_) => visit.leftover(&tapped, "no TLS handshake within 30 s".to_owned()).await,
    }
    drop(permit);
}

fn config(visit: &Visit, hello: &ClientHello<'_>) -> Result<Arc<ServerConfig>, String> {
    let authority = visit.tenancy.authority().ok_or("nobody lives here")?;
    let leaf =
        authority.leaf(&Subject::of(hello.server_name(), visit.meant.ip())).map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Only(leaf)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The one leaf that this connection needs.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
