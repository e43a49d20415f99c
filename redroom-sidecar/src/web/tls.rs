//! TLS as whoever was meant: the certificate is chosen after the client has said whom it wants.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authority::Subject;
use crate::conversation::describe;
use crate::tenant::Tenant;
use crate::witness::Witness;

/// How much of what was read last may not have been opened: two records and what is around them.
pub(super) const UNREAD: usize = 36 * 1024;

/// First byte of a record that may stand between those of a handshake.
const CHANGE_CIPHER_SPEC: u8 = 0x14;

/// A handshake that did not come about.
pub(super) struct Refused {
    pub(super) server_name: Option<String>,
    pub(super) fault: String,
}

/// Shakes hands. Returns the server name that the client asked for.
pub(super) async fn accept(
    raw: &Witness<TcpStream>,
    tenant: &Tenant,
    meant: IpAddr,
    silence: Duration,
) -> Result<(TlsStream<Witness<TcpStream>>, Option<String>), Refused> {
    let mut server_name = None;
    let shaken = tokio::select! {
        shaken = shake(raw, tenant, meant, &mut server_name) => shaken,
        () = raw.pulse().stopped(silence) => Err("the client fell silent".to_owned()),
        // Whoever reads the rest of it counts it.
        () = tenant.cut.cancelled() => Err("cut at the end of its run".to_owned()),
    };
    match shaken {
        Ok(stream) => Ok((stream, server_name)),
        Err(fault) => Err(Refused { server_name, fault: format!("tls handshake: {fault}") }),
    }
}

async fn shake(
    raw: &Witness<TcpStream>,
    tenant: &Tenant,
    meant: IpAddr,
    server_name: &mut Option<String>,
) -> Result<TlsStream<Witness<TcpStream>>, String> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), raw.clone()).await.map_err(|error| describe(&error))?;
    raw.memory().understood();
    *server_name = start.client_hello().server_name().map(str::to_ascii_lowercase);
    let config = config(tenant, &start.client_hello(), meant)?;
    start.into_stream(config).await.map_err(|error| describe(&error))
}

/// The handshake at the beginning of what a client sent, without the records around it: they may be cut anywhere. Who is
/// asked for another hello announces a change of ciphers before it.
pub(super) fn handshake(sent: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    let mut rest = sent;
    while let [kind @ (super::TLS | CHANGE_CIPHER_SPEC), _, _, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        if *kind == super::TLS {
            joined.extend_from_slice(&after[..length]);
        }
        rest = &after[length..];
    }
    joined
}

fn config(tenant: &Tenant, hello: &ClientHello<'_>, meant: IpAddr) -> Result<Arc<ServerConfig>, String> {
    let authority = tenant.authority().ok_or("no run has moved in, so there is no certificate")?;
    let config = authority.server_config(&Subject::of(hello.server_name(), meant)).map_err(|error| describe(&error))?;
    let offers =
        hello.alpn().map(|mut offers| offers.any(|offer| config.alpn_protocols.iter().any(|ours| ours == offer)));
    if offers != Some(false) {
        return Ok(config);
    }
    // Whoever wants another protocol inside would be refused, and what it has to say stay unknown: nothing is agreed on.
    let mut config = ServerConfig::clone(&config);
    config.alpn_protocols.clear();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::handshake;

    #[test]
    fn a_second_hello_is_joined_behind_the_change_of_ciphers_before_it() {
        let sent =
            b"\x16\x03\x01\0\x02he\x14\x03\x03\0\x01\x01\x16\x03\x03\0\x01l\x16\x03\x03\0\x02lo\x17\x03\x03\0\x01x";
        assert_eq!(handshake(sent), b"hello");
        assert_eq!(handshake(&sent[..22]), b"hel", "cut in a record's head");
        assert_eq!(handshake(&sent[..25]), b"hell", "cut in a record");
    }
}
