//! The client for an address: over a socket, over the network, or over the network with TLS.
//!
//! TLS goes through the HTTP client that the rest of redroom uses; the client library's own would bring a second set of roots along, and
//! trust the system's beside the engine's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::address::{Address, Certificates};
use crate::error::chain;

/// Makes a client; nothing is asked yet. The error says why there is none.
pub(crate) fn client(address: &Address, timeout: Duration) -> Result<Docker, String> {
    let seconds = timeout.as_secs();
    let client = match address {
        Address::Unix(path) => {
            match Path::new(path).try_exists() {
                Ok(true) => {}
                Ok(false) => return Err("there is no such socket".to_owned()),
                // Who may not look into its folder does not know whether it is there.
                Err(error) => return Err(format!("it cannot be looked at: {error}")),
            }
            Docker::connect_with_unix(&path.display().to_string(), seconds, API_DEFAULT_VERSION)
        }
        Address::Tcp { host, port, certificates: None } => {
            Docker::connect_with_http(&format!("tcp://{host}:{port}"), seconds, API_DEFAULT_VERSION)
        }
        Address::Tcp { host, port, certificates: Some(certificates) } => {
            let tls = HttpsConnectorBuilder::new().with_tls_config(tls(certificates)?).https_only().enable_http1();
            let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(tls.build());
            let send = move |request: BollardRequest| {
                let answer = client.request(request);
                async move { answer.await.map_err(Into::into) }
            };
            let address = Some(format!("https://{host}:{port}"));
            Docker::connect_with_custom_transport(send, address, seconds, API_DEFAULT_VERSION)
        }
    };
    client.map_err(|error| chain(&error))
}

/// Trusts the engine's authority and nobody else.
fn tls(certificates: &Certificates) -> Result<ClientConfig, String> {
    let unusable = |what: &str, why: &dyn std::fmt::Display| format!("{what} cannot be used: {why}");
    let read = |pem: &[u8], what: &str| {
        let found: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match found {
            Ok(found) if found.is_empty() => Err(unusable(what, &"it holds no certificate")),
            found => found.map_err(|error| unusable(what, &error)),
        }
    };
    let mut roots = RootCertStore::empty();
    for root in read(&certificates.authority, "ca.pem")? {
        roots.add(root).map_err(|error| unusable("ca.pem", &error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", &error))?
        .with_root_certificates(roots);
    let Some(identity) = &certificates.identity else { return Ok(config.with_no_client_auth()) };
    let own = read(&identity.certificate, "cert.pem")?;
    // What is wrong with a key is said without a word of it.
    let key =
        PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| unusable("key.pem", &"it holds no private key"))?;
    config.with_client_auth_cert(own, key).map_err(|error| unusable("cert.pem with key.pem", &error))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::address::Identity;
    use super::*;

    /// An authority, and certificates signed by it.
    struct Signer {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Signer {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let pem = params.self_signed(&key).unwrap().pem();
            Signer { pem, issuer: Issuer::new(params, key) }
        }

        fn sign(&self, name: &str) -> Identity {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
            Identity { certificate: certificate.into_bytes(), key: key.serialize_pem().into_bytes() }
        }
    }

    /// An engine that answers whoever has a certificate of the same authority.
    async fn engine(signer: &Signer) -> SocketAddr {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(signer.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let own = signer.sign("localhost");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(&own.certificate).unwrap()],
                PrivateKeyDer::from_pem_slice(&own.key).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut head = [0; 4096];
                    let _ = stream.read(&mut head).await?;
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK").await?;
                    stream.shutdown().await
                });
            }
        });
        address
    }

    async fn ping(engine: SocketAddr, authority: &str, identity: Option<Identity>) -> Result<String, String> {
        let certificates = Certificates { authority: authority.as_bytes().to_vec(), identity };
        let address =
            Address::Tcp { host: "localhost".to_owned(), port: engine.port(), certificates: Some(certificates) };
        let docker = client(&address, Duration::from_secs(10))?;
        docker.ping().await.map_err(|error| chain(&error))
    }

    #[tokio::test]
    async fn an_engine_is_trusted_by_its_authority_and_asks_for_ours() {
        let (signer, other) = (Signer::new(), Signer::new());
        let engine = engine(&signer).await;
        assert_eq!(ping(engine, &signer.pem, Some(signer.sign("client"))).await.as_deref(), Ok("OK"));
        for (what, refused) in [
            ("another authority", ping(engine, &other.pem, Some(signer.sign("client"))).await),
            ("no certificate of ours", ping(engine, &signer.pem, None).await),
            ("a certificate that it does not know", ping(engine, &signer.pem, Some(other.sign("client"))).await),
        ] {
            assert!(refused.is_err(), "{what}");
        }
    }

    #[test]
    fn a_socket_that_cannot_be_looked_at_is_not_told_as_one_that_is_not_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let tried = |path: std::path::PathBuf| client(&Address::Unix(path), Duration::from_secs(1)).err().unwrap();
        let told = tried(file.path().join("docker.sock"));
        assert!(told.starts_with("it cannot be looked at: ") && told.contains("directory"), "{told}");
        assert_eq!(tried(file.path().with_extension("absent")), "there is no such socket");
    }

    #[tokio::test]
    async fn files_that_hold_no_certificate_are_named_and_keys_never_quoted() {
        let (signer, nowhere) = (Signer::new(), SocketAddr::from(([127, 0, 0, 1], 9)));
        assert!(ping(nowhere, "nothing", None).await.unwrap_err().contains("ca.pem"));
        let own = signer.sign("client");
        let broken = Identity { certificate: own.certificate, key: b"hunter2".to_vec() };
        let error = ping(nowhere, &signer.pem, Some(broken)).await.unwrap_err();
        assert!(error.contains("key.pem") && !error.contains("hunter2"), "{error}");
        let (one, two) = (signer.sign("client"), signer.sign("client"));
        let mixed = Identity { certificate: one.certificate, key: two.key };
        let error = ping(nowhere, &signer.pem, Some(mixed)).await.unwrap_err();
        assert!(error.contains("cert.pem with key.pem"), "{error}");
    }
}
