//! Which headers pass the relay, in which direction.

use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Request};
use hyper::body::Incoming;

use crate::wire::{CALL, GENERATION, Generation, MODEL_HEADERS, WITHHELD_HEADERS};

/// Credentials of the agent: placeholders, or evidence. The upstream's own are the harness's to add.
const CREDENTIALS: [&str; 4] = ["x-api-key", "api-key", "x-goog-api-key", "x-auth-token"];

/// What the harness says to an upstream of the run must not be said by the agent.
const OURS: &str = "x-redroom-";

/// The head of a `/model` request.
pub(crate) fn upward(request: &Request<Incoming>, path: &str, generation: Generation, call: u64) -> Option<HeaderMap> {
    let mut headers = prefixed(request.headers(), |name| !is_credential(name) && !name.as_str().starts_with(OURS));
    for (name, value) in request.headers().iter().filter(|(name, _)| is_withheld(name)) {
        if let Ok(name) = HeaderName::from_bytes(format!("{WITHHELD_HEADERS}{name}").as_bytes()) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(GENERATION, generation.0.into());
    headers.insert(CALL, call.into());
    headers.insert("redroom-method", HeaderValue::from_str(request.method().as_str()).ok()?);
    headers.insert("redroom-target", HeaderValue::from_str(path).ok()?);
    Some(headers)
}

/// The head of an answer to the agent: what the upstream said, without its prefix.
pub(super) fn downward(headers: &HeaderMap) -> HeaderMap {
    let theirs = headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_str().strip_prefix(MODEL_HEADERS)?.as_bytes()).ok()?;
        Some((name, value.clone()))
    });
    let mut plain = HeaderMap::new();
    for (name, value) in theirs {
        plain.append(name, value);
    }
    let hops = named_hops(&plain);
    let mut kept = HeaderMap::new();
    for (name, value) in &plain {
        if !is_hop_by_hop(name, &hops) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

fn prefixed(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let hops = named_hops(headers);
    let mut prefixed = HeaderMap::new();
    for (name, value) in headers {
        let passes = passes(name) && !is_hop_by_hop(name, &hops) && name != HOST && name != EXPECT;
        if let (true, Ok(name)) = (passes, HeaderName::from_bytes(format!("{MODEL_HEADERS}{name}").as_bytes())) {
            prefixed.append(name, value.clone());
        }
    }
    prefixed
}

/// What the harness judges, and nobody gets.
fn is_withheld(name: &HeaderName) -> bool {
    is_credential(name) || name == HOST || name == PROXY_AUTHORIZATION
}

fn is_credential(name: &HeaderName) -> bool {
    name == AUTHORIZATION || name == COOKIE || CREDENTIALS.contains(&name.as_str())
}

fn is_hop_by_hop(name: &HeaderName, named: &[String]) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "http2-settings"].contains(&name.as_str())
        || name.as_str().starts_with("proxy-")
        || named.iter().any(|hop| hop == name.as_str())
}

/// The headers that `Connection` names: they concern this hop only.
fn named_hops(headers: &HeaderMap) -> Vec<String> {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}
