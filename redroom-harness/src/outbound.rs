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
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new(Proxies::none()).unwrap()
    }

    /// A client that trusts one certificate.
    fn trusting(certificate: rustls::pki_types::CertificateDer<'static>) -> Client {
        client().trusting(&Authorities::from(vec![certificate])).unwrap()
    }

    #[tokio::test]
    async fn http2_is_spoken_with_services_that_offer_it_and_strangers_are_not_trusted() {
        let (server, certificate) = loopback::Server::tls(|version| format!("{version:?}")).await;
        let trusting = trusting(certificate);
        let request = || http::Request::post(&server.url).body(full("x")).unwrap();
        let answer = trusting.send(request()).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes(), "HTTP/2.0");
        let error = client().send(request()).await.unwrap_err();
        assert!(explain(&error).contains("certificate"), "{}", explain(&error));
    }

    /// Collects all that is traced, however deep.
    #[derive(Clone, Default)]
    struct Traces(Arc<std::sync::Mutex<String>>);

    impl tracing::field::Visit for Traces {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
            self.0.lock().unwrap().push_str(&format!("{field}={value:?} "));
        }
    }

    impl tracing::Subscriber for Traces {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            span.record(&mut self.clone());
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
            values.record(&mut self.clone());
        }

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test]
    async fn nothing_that_is_traced_on_the_way_holds_a_header_of_the_service() {
        let traces = Traces::default();
        let _collecting = tracing::subscriber::set_default(traces.clone());
        let mut headers = SecretHeaders::default();
        headers.push("x-api-key".to_owned(), "sk-traced-7731".to_owned());
        let (secure, certificate) = loopback::Server::tls(|version| format!("{version:?}")).await;
        let plain = loopback::Server::noting(|| loopback::ok("plain")).await;
        let client = trusting(certificate);
        for (url, says) in [(&secure.url, "HTTP/2.0"), (&plain.url, "plain")] {
            let mut request = http::Request::post(url).body(full("x")).unwrap();
            request.headers_mut().extend(headers.parse().unwrap());
            let answer = client.send(request).await.unwrap().into_body().collect().await.unwrap();
            assert_eq!(answer.to_bytes(), says);
        }
        let traced = traces.0.lock().unwrap();
        assert!(traced.contains("Headers"), "nothing is traced: {traced}");
        assert!(!traced.contains("sk-traced"), "{traced}");
    }

    #[test]
    fn a_target_is_put_below_the_prefix_and_nothing_is_doubled_or_lost() {
        for (base, want) in [
            ("http://h:8", "http://h:8/v1/messages?beta=true"),
            ("http://h:8/", "http://h:8/v1/messages?beta=true"),
            ("https://h/pre/fix", "https://h/pre/fix/v1/messages?beta=true"),
            ("https://h/pre/fix/", "https://h/pre/fix/v1/messages?beta=true"),
            ("https://h/a%2Fb", "https://h/a%2Fb/v1/messages?beta=true"),
            ("http://[::1]:8080/x/", "http://[::1]:8080/x/v1/messages?beta=true"),
            ("http://h:80", "http://h/v1/messages?beta=true"),
        ] {
            let uri = Service::parse(base).unwrap().join("/v1/messages?beta=true").unwrap();
            assert_eq!(uri.to_string(), want, "{base}");
        }
    }

    #[test]
    fn what_cannot_be_an_address_says_what_to_write() {
        for (text, says) in [
            ("gateway.example.com", "https://gateway.example.com/prefix"),
            ("ftp://h/", "only http and https"),
            ("https://me:hunter2@h/", "header"),
            ("https://h/#x", "fragment"),
        ] {
            let said = Service::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_query() {
        let service = Service::parse("https://h/guard?token=hunter2").unwrap();
        assert_eq!(service.to_string(), "https://h/guard");
        assert_eq!(format!("{service:?}"), "\"https://h/guard\"");
        assert_eq!(service.uri().unwrap().to_string(), "https://h/guard?token=hunter2");
    }

    #[test]
    fn header_values_never_show() {
        let mut headers = SecretHeaders::default();
        headers.push("x-api-key".into(), "hunter2".into());
        assert_eq!(format!("{headers:?}"), "{\"x-api-key\": (redacted)}");
        assert!(!format!("{:?}", headers.parse().unwrap()).contains("hunter2"));
        headers.push("x-bad".into(), "hunter2\n".into());
        assert!(!headers.parse().unwrap_err().contains("hunter2"));
    }

    #[test]
    fn a_value_is_a_secret_by_its_name_or_by_its_looks() {
        for (name, value, open) in [
            ("x-api-key", "2023-06-01", false),
            ("Anthropic-Version", "2023-06-01", true),
            ("anthropic-version", "sk-ant-1234", false),
            ("anthropic-beta", "context-1m-2025-08-07, interleaved-thinking-2025-05-14", true),
            ("anthropic-beta", "hunter2hunter2", false),
            ("anthropic-beta", "feature-x9K2mQ7pL4vZ-2025-08-07", false),
            ("authorization", "Bearer swordfish", false),
            ("x-provider", "anthropic", true),
            ("x-region", "eu-central-1", true),
            ("x-tenant", "550e8400-e29b-41d4-a716-446655440000", false),
            ("content-type", "application/json; charset=utf-8", true),
            ("accept", "application/sk-ant-1234", false),
            ("user-agent", "gateway/sk-ant-1234", false),
        ] {
            let mut headers = SecretHeaders::default();
            headers.push(name.into(), value.into());
            assert_eq!(headers.secrets().next().is_none(), open, "{name}: {value}");
        }
    }

    #[test]
    fn headers_that_redroom_sets_cannot_be_given() {
        for name in ["content-length", "Transfer-Encoding", "X-Redroom-Run"] {
            let mut headers = SecretHeaders::default();
            headers.push(name.into(), "1".into());
            assert!(headers.parse().unwrap_err().contains(name));
        }
    }

    #[test]
    fn headers_of_the_connection_go_and_so_do_those_it_names() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, X-Private"), ("x-private", "1"), ("te", "trailers"), ("x-kept", "1")]
        {
            headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }
}
