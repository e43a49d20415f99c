//! Whom a request means. A client can name a host in four places, and a lie in one of them is an attack: all are looked at.

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

use crate::conversation::Party;

/// Whom a request means.
pub(super) struct Meant {
    /// The request's authority, else its `Host`, else the TLS server name, else the address. Lower case, without port.
    pub(super) host: String,
    /// Whether it was meant for outside the fake domain. One name outside is enough, so that fronting shows.
    pub(super) outside: bool,
}

impl Meant {
    pub(super) fn of(head: &Parts, party: &Party) -> Self {
        let target = head.uri.authority().map(|authority| plain(authority.host()));
        let headers = head.headers.get_all(HOST).iter().map(|value| named(value.as_bytes()));
        let names: Vec<_> = target.into_iter().chain(headers).chain(party.server_name.as_deref().map(plain)).collect();
        let outside = names.is_empty() || !names.iter().all(|name| party.tenant.owns(name));
        let host = names.into_iter().next().unwrap_or_else(|| party.meant.ip().to_canonical().to_string());
        Meant { host, outside }
    }
}

/// The host of a `Host` header; what does not parse stays as it is.
fn named(header: &[u8]) -> String {
    match Authority::try_from(header) {
        Ok(authority) => plain(authority.host()),
        Err(_) => plain(&String::from_utf8_lossy(header)),
    }
}

/// Lower case, without the brackets of an IPv6 address and the dot at a name's end.
fn plain(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}
