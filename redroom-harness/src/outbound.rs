//! The way out to what belongs to the team: model gateways and guards, over HTTP.
//!
//! Owns the client, the address of a service and the headers that it wants, which are secrets. Knows nothing of models,
//! guards or runs. Redirects are never followed, nothing is retried; a proxy of this machine's network is used where the
//! environment names one.

mod address;
pub(crate) mod bounds;
pub(crate) mod coding;
mod credentials;
mod failure;
#[cfg(test)]
pub(crate) mod loopback;
mod proxies;
mod road;
pub(crate) mod silence;
mod trust;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use address::Address;
pub(crate) use credentials::{is_credential, looks_like_key};
pub(crate) use failure::explain;
pub(crate) use proxies::Proxies;
pub(crate) use trust::Authorities;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Deserialize;
use url::Url;

use road::Road;

use crate::error::{Error, Result};

/// Header that tells the team's services which run a request belongs to.
pub(crate) const RUN_HEADER: &str = "x-redroom-run";

/// How long a connection may lie unused. Shorter than the five seconds after which common servers close theirs: a request
/// never meets a connection that is being closed.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// A body that streams; what goes wrong in the middle is an error of redroom's.
pub(crate) type Body = UnsyncBoxBody<Bytes, Error>;

/// About the most that an answer's head may weigh while it is read.
const HEAD: usize = 64 * 1024;

/// The HTTP client of one session. Lives on the runtime that first uses it: never put it in a static.
#[derive(Clone)]
pub(crate) struct Client {
    client: legacy::Client<HttpsConnector<Road>, Body>,
    proxies: Arc<Proxies>,
}

impl Client {
    /// A client that trusts what this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured), or the usual roots
    /// on a machine without any.
    pub(crate) fn new(proxies: Proxies) -> Result<Self> {
        Client::build(Arc::new(proxies), &Authorities::default())
    }

    /// One like it that trusts these authorities, too.
    pub(crate) fn trusting(&self, authorities: &Authorities) -> Result<Self> {
        Client::build(self.proxies.clone(), authorities)
    }

    /// Why a service cannot be reached from here, whoever it is, if so.
    pub(crate) fn hindrance(&self, service: &Service) -> Option<String> {
        self.proxies.hindrance(service)
    }

    fn build(proxies: Arc<Proxies>, authorities: &Authorities) -> Result<Self> {
        let tls = authorities.client_config()?;
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        let builder = || HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http().enable_http1();
        let to_proxy = builder().wrap_connector(direct.clone());
        let connector = builder().enable_http2().wrap_connector(Road::new(direct, to_proxy, proxies.clone()));
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_CONNECTION)
            .http1_max_buf_size(HEAD)
            .http2_max_header_list_size(HEAD as u32)
            .build(connector);
        Ok(Client { client, proxies })
    }

    /// Sends one request; the answer is whatever the service says.
    pub(crate) async fn send(
        &self,
        request: http::Request<Body>,
    ) -> std::result::Result<http::Response<hyper::body::Incoming>, legacy::Error> {
        self.client.request(request).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// A body that is there already.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Headers that a service wants. Their values are secrets: they show up in no error and no debug output.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "std::collections::BTreeMap<String, String>")]
pub(crate) struct SecretHeaders(Vec<(String, String)>);

impl SecretHeaders {
    pub(crate) fn push(&mut self, name: String, value: String) {
        self.0.push((name, value));
    }

    /// What has to be taken out of whatever is stored or said to an agent: the values of headers that are there to carry
    /// credentials, and of others those that look like a key. The name of a provider is none.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let held = |name: &str, value: &str| is_credential(name) || looks_like_key(value) && !is_open(name, value);
        self.0.iter().filter(move |(name, value)| held(name, value)).map(|(_, value)| value.clone())
    }

    /// The headers as they are sent; a later one replaces an earlier one of the same name. The error says what is wrong
    /// with which header.
    pub(crate) fn parse(&self) -> std::result::Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.0 {
            let Ok(parsed) = HeaderName::try_from(name.as_str()) else {
                return Err(format!("the header name {name:?} is not valid"));
            };
            if is_hop_by_hop(&parsed) || parsed == header::CONTENT_LENGTH || parsed == RUN_HEADER {
                return Err(format!("the header {name} is set by redroom and cannot be given"));
            }
            let Ok(mut value) = HeaderValue::try_from(value.as_str()) else {
                return Err(format!("the value of the header {name} holds characters that no header can carry"));
            };
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        Ok(headers)
    }
}

/// Whether a header only says which form or version of an API is spoken: evidence is full of these. Both name and value have
/// to look like it.
fn is_open(name: &str, value: &str) -> bool {
    let is_date = |text: &str| {
        let dashes = |at: usize| at == 4 || at == 7;
        text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| if dashes(at) { byte == b'-' } else { byte.is_ascii_digit() })
    };
    let is_beta = |text: &str| {
        let name = text.trim();
        name.len().checked_sub(10).and_then(|at| name.split_at_checked(at)).is_some_and(|(feature, date)| {
            is_date(date)
                && feature.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
    };
    match name.to_ascii_lowercase().as_str() {
        "accept" | "content-type" => value
            .split([',', ';'])
            .all(|part| matches!(part.trim(), "*/*" | "application/json" | "text/event-stream" | "charset=utf-8")),
        "anthropic-version" => is_date(value.trim()),
        "anthropic-beta" => value.split(',').all(is_beta),
        _ => false,
    }
}

impl From<std::collections::BTreeMap<String, String>> for SecretHeaders {
    fn from(map: std::collections::BTreeMap<String, String>) -> Self {
        SecretHeaders(map.into_iter().collect())
    }
}

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, format_args!("(redacted)")))).finish()
    }
}

/// Where a service is. Its query, if it has one, may hold a key and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Service {
    url: Url,
}

impl Service {
    /// Reads an address as the user wrote it. The error continues a sentence that starts with what the address is for,
    /// and does not repeat an address that may hold a password.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let url = Url::parse(text)
            .map_err(|error| format!("is not a URL ({error}); write it like \"https://gateway.example.com/prefix\""))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("starts with \"{}:\"; only http and https can be used", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user or password in it; take them out and give a header instead".to_owned());
        }
        if url.fragment().is_some() {
            return Err("has a fragment (#…); take it out".to_owned());
        }
        Ok(Service { url })
    }

    /// The host, as a URL has it.
    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) fn has_query(&self) -> bool {
        self.url.query().is_some()
    }

    /// The path without slashes at its end: what is put before the path of a request.
    pub(crate) fn prefix(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }

    /// The address itself.
    pub(crate) fn uri(&self) -> std::result::Result<Uri, http::uri::InvalidUri> {
        self.url.as_str().parse()
    }

    /// The address with this path and query below its prefix.
    pub(crate) fn join(&self, target: &str) -> std::result::Result<Uri, http::uri::InvalidUri> {
        format!("{}{}{}", self.origin(), self.prefix(), target).parse()
    }

    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// The address without its query: what errors may say.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.url.path())
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Takes out what concerns one connection only, also what `connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    let gone: Vec<HeaderName> = headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

#[cfg(test)]
mod tests;
