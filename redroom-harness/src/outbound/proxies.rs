//! Proxies of this machine's network: which services are reached through one, as the environment says. User and password of
//! a proxy are secrets: they show up in no error and no debug output.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use super::Service;

/// What a proxy's address may begin with.
const SCHEMES: [&str; 2] = ["http", "https"];

/// Which proxy leads to which service.
pub(crate) struct Proxies {
    matcher: Matcher,
    /// What is wrong with the address that was given, if it is.
    unusable: Option<String>,
    secrets: Vec<String>,
}

impl Proxies {
    /// As the environment says: `https` is `HTTPS_PROXY`, or else `ALL_PROXY`; `no` is `NO_PROXY`.
    pub(crate) fn new(https: Option<&str>, no: Option<&str>) -> Self {
        let address = https.map(|text| if text.contains("://") { text.to_owned() } else { format!("http://{text}") });
        let url = address.as_deref().map(Url::parse);
        let unusable = match &url {
            None => None,
            Some(Ok(url)) if SCHEMES.contains(&url.scheme()) && url.has_host() => None,
            Some(Ok(url)) => Some(format!("names a proxy of the kind {}://; http and https can be used", url.scheme())),
            Some(Err(error)) => Some(format!("is no URL ({error}); write it like \"http://proxy.example.com:3128\"")),
        };
        let secrets = url.and_then(Result::ok).map_or_else(Vec::new, |url| credentials(&url));
        let builder = Matcher::builder().no(no.unwrap_or_default());
        let usable = address.filter(|_| unusable.is_none());
        Proxies { matcher: builder.https(usable.unwrap_or_default()).build(), unusable, secrets }
    }

    /// None at all.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Proxies::new(None, None)
    }

    /// User and password, as they are written and as they are meant.
    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// The proxy that leads to an address. What is on this machine, or spoken to without TLS, is reached directly.
    pub(super) fn intercept(&self, address: &Uri) -> Option<Intercept> {
        if address.host().is_none_or(is_loopback) {
            return None;
        }
        self.matcher.intercept(address)
    }

    /// Why a service cannot be reached, if it would be through a proxy that cannot be used.
    pub(super) fn hindrance(&self, service: &Service) -> Option<String> {
        let why = self.unusable.as_ref()?;
        (service.is_secure() && !is_loopback(service.host())).then(|| format!("HTTPS_PROXY (or ALL_PROXY) {why}"))
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn credentials(url: &Url) -> Vec<String> {
    let written = [url.username(), url.password().unwrap_or_default()];
    let meant = written.map(|text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned());
    let mut all: Vec<String> =
        written.map(str::to_owned).into_iter().chain(meant).filter(|text| !text.is_empty()).collect();
    all.dedup();
    all
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").field("unusable", &self.unusable).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_elsewhere_that_speak_tls_are_reached_through_the_proxy() {
        let proxies = Proxies::new(Some("proxy.example:3128"), Some("internal.example, 192.168.0.0/16, .corp.example"));
        for (address, through) in [
            ("https://gateway.example/x", true),
            ("https://[2001:db8::1]:8443/", true),
            ("https://internal.example/", false),
            ("https://a.internal.example/", false),
            ("https://x.corp.example/", false),
            ("https://192.168.7.7/", false),
            ("https://notinternal.example/", true),
            ("https://localhost:4000/", false),
            ("https://a.LOCALHOST/", false),
            ("https://127.8.0.1/", false),
            ("https://[::1]/", false),
            ("http://gateway.example/", false),
        ] {
            let proxy = proxies.intercept(&address.parse().unwrap());
            assert_eq!(proxy.is_some(), through, "{address}");
            assert!(proxy.is_none_or(|proxy| proxy.uri().authority().unwrap() == "proxy.example:3128"));
        }
        assert!(
            Proxies::new(Some("http://p:1"), Some("*")).intercept(&"https://g.example/".parse().unwrap()).is_none()
        );
    }

    #[test]
    fn credentials_are_secrets_and_never_show() {
        let proxies = Proxies::new(Some("http://me:hunter%2B2@proxy.example:3128"), None);
        assert_eq!(proxies.secrets(), ["me", "hunter%2B2", "me", "hunter+2"]);
        let proxy = proxies.intercept(&"https://g.example/".parse().unwrap()).unwrap();
        assert!(proxy.basic_auth().is_some());
        assert!(!format!("{proxies:?}{proxy:?}{}", proxy.uri()).contains("hunter"));
    }

    #[test]
    fn a_proxy_of_another_kind_hinders_only_what_would_use_it() {
        for (address, says) in
            [("socks5://me:hunter2@p:1", "socks5"), ("http://", "no URL"), ("http://p:99999", "no URL")]
        {
            let proxies = Proxies::new(Some(address), None);
            let hindrance = |url: &str| proxies.hindrance(&Service::parse(url).unwrap());
            let said = hindrance("https://gateway.example").unwrap();
            assert!(said.contains(says) && !said.contains("hunter2"), "{said}");
            assert_eq!((hindrance("http://gateway.example"), hindrance("https://localhost:1")), (None, None));
        }
    }
}
