//! A service that model requests are sent on to: its address, its headers, and how requests and answers travel.
//!
//! Streams both ways as the bytes come. The agent never learns the address or the headers; what goes wrong is an error by
//! `model_proxy`.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::time::Instant;

use super::{ModelCall, Upstream};
use crate::error::{By, Call, Error, Result, chain};
use crate::outbound::bounds::{Bounded, Bounds, Excess};
use crate::outbound::silence::{Activity, BodyEnd, Impatient, Watched};
use crate::outbound::{
    Address, Authorities, Body, Client, RUN_HEADER, SecretHeaders, Service, explain, remove_hop_by_hop,
};
use crate::planting::from_crate;

/// How long a service may send nothing.
const SILENCE: Duration = Duration::from_secs(120);

/// The most that an answer, and a line of one that is a stream of events, may weigh: far more than any model says.
const ANSWER: u64 = 64_000_000;
const LINE: u64 = 8_000_000;

/// The most that an answer's head may weigh: the link carries little more to the agent.
const HEAD: usize = 64_000;

/// Headers that carry credentials; the agent's are never passed on, whatever it sends.
const CREDENTIALS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-auth-token"),
];

/// A service that the agent's model requests are sent on to: a gateway, the model's own API, or a guard in between.
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::ModelProxy;
///
/// let proxy = ModelProxy::new("https://gateway.example.com/anthropic").header("x-api-key", "…");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelProxy {
    base_url: Address,
    #[serde(default)]
    headers: SecretHeaders,
    ca: Option<PathBuf>,
    #[serde(default, deserialize_with = "seconds")]
    silence: Option<Duration>,
}

impl ModelProxy {
    /// How long it may be allowed to send nothing, in seconds of a file: up to longer than any turn.
    pub(crate) const SILENCE_SECONDS: RangeInclusive<u64> = 1..=24 * 60 * 60;

    /// A service at this base URL: what stands before `/v1/messages`. Whether it can be one is checked at the start
    /// (`invalid_model_proxy`).
    pub fn new(base_url: impl Into<String>) -> Self {
        ModelProxy { base_url: Address::new(base_url), headers: SecretHeaders::default(), ca: None, silence: None }
    }

    /// Trusts the certificate authorities in this PEM file beside those of the machine: for a gateway with a certificate of
    /// the team's own. A relative path starts at the crate's folder.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(path.into());
        self
    }

    /// How long the service may send nothing, before its answer and in it, before it is given up with `timeout`. Whatever it
    /// sends counts, a comment or a ping in a stream too. Default: two minutes.
    #[must_use]
    pub fn silence(mut self, limit: Duration) -> Self {
        self.silence = Some(limit);
        self
    }

    /// Adds a header to every request, in place of the agent's own of that name. The value is a secret and never shown: one
    /// of 8 characters or more is taken out of whatever is stored, and out of what the service answers to the agent.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(name.into(), value.into());
        self
    }

    /// Anthropic's API itself.
    pub fn anthropic(key: impl Into<String>) -> Self {
        ModelProxy::new("https://api.anthropic.com").header("x-api-key", key)
    }

    /// What has to be taken out of everything that is stored or said to an agent: the values of its headers, and what its
    /// address should not hold.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.headers.secrets().chain(self.base_url.secrets()).collect()
    }

    /// Its service and its headers, if they can be such.
    ///
    /// # Errors
    ///
    /// `invalid_model_proxy`, with what to write.
    pub(crate) fn check(&self) -> Result<(Service, HeaderMap)> {
        let service = self.base_url.parse().map_err(|why| invalid(&format!("base_url {why}")))?;
        if service.has_query() {
            return Err(invalid("base_url has a query (?…); take it out, a key belongs in a header"));
        }
        let prefix = service.prefix();
        if let Some(before) = prefix.strip_suffix("/v1").or_else(|| prefix.strip_suffix("/v1/messages")) {
            return Err(invalid(&format!(
                "base_url ends in {:?}, which the agent adds itself; write {:?}",
                &prefix[before.len()..],
                service.to_string().trim_end_matches('/').strip_suffix(&prefix[before.len()..]).unwrap_or_default(),
            )));
        }
        let headers = self.headers.parse().map_err(|why| invalid(&format!("cannot be used: {why}")))?;
        Ok((service, headers))
    }

    /// Checks it, and makes it an upstream.
    pub(crate) fn open(&self, client: &Client) -> Result<Forward> {
        let (service, headers) = self.check()?;
        if let Some(why) = client.hindrance(&service) {
            return Err(invalid(&format!("{service} cannot be reached: {why}, or name the service in NO_PROXY")));
        }
        let silence = self.silence.unwrap_or(SILENCE);
        if silence.is_zero() || silence > Duration::from_secs(*Self::SILENCE_SECONDS.end()) {
            return Err(invalid("silence is out of range; give from a moment to a day"));
        }
        let client = match &self.ca {
            None => client.clone(),
            Some(path) => client.trusting(&authorities(&from_crate(path))?)?,
        };
        Ok(Forward { client, service, headers, silence })
    }
}

/// The authorities in a PEM file.
///
/// # Errors
///
/// `invalid_model_proxy`.
pub(crate) fn authorities(path: &Path) -> Result<Authorities> {
    Authorities::read(path).map_err(|why| invalid(&format!("ca {} {why}", path.display())))
}

fn invalid(why: &str) -> Error {
    Error::new(By::ModelProxy, "invalid_model_proxy", format!("the model proxy {why}"))
}

/// Seconds, as files say them.
fn seconds<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Option<Duration>, D::Error> {
    Ok(Some(Duration::from_secs(u64::deserialize(from)?)))
}

/// Sends model requests on to a service.
#[derive(Debug)]
pub(crate) struct Forward {
    client: Client,
    service: Service,
    headers: HeaderMap,
    silence: Duration,
}

impl Forward {
    fn request(&self, call: ModelCall, activity: Activity) -> Result<http::Request<Body>> {
        let invalid = |what: &str| Error::redroom("invalid_model_request", format!("the {what} cannot be sent on"));
        let uri = self.service.join(&call.target).map_err(|_| invalid("path of a model request"))?;
        let mut headers = call.headers;
        remove_hop_by_hop(&mut headers);
        for name in CREDENTIALS.iter().chain(&[header::HOST, header::EXPECT]) {
            headers.remove(name);
        }
        // A compressed answer would be no evidence for whoever reads it.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        headers.insert(RUN_HEADER, HeaderValue::try_from(&call.run).map_err(|_| invalid("id of the run"))?);
        let mut request = http::Request::new(Watched::new(call.body, activity).boxed_unsync());
        *request.method_mut() = call.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn error(&self, code: &'static str, what: &str, begun: Instant) -> Error {
        fault(&self.service, code, what, begun)
    }
}

#[async_trait]
impl Upstream for Forward {
    async fn answer(&self, call: ModelCall) -> Result<http::Response<Body>> {
        let begun = Instant::now();
        let activity = Activity::new();
        let request = self.request(call, activity.clone())?;
        let response = tokio::select! {
            response = self.client.send(request) => response,
            () = activity.silence(self.silence) => {
                return Err(self.error("timeout", &silent(self.silence), begun));
            }
        };
        let response = response.map_err(|error| {
            activity.fault().unwrap_or_else(|| {
                self.error("network_error", &format!("could not be asked ({}); check base_url", explain(&error)), begun)
            })
        })?;
        let (mut head, body) = response.into_parts();
        if head_weight(&head.headers) > HEAD {
            return Err(self.error("answer_too_large", &format!("sent a head of more than {} kB", HEAD / 1000), begun));
        }
        remove_hop_by_hop(&mut head.headers);
        head.headers.remove(header::SET_COOKIE);
        let (service, silence) = (self.service.clone(), self.silence);
        let body = Impatient::new(body, silence, move |end| match end {
            BodyEnd::Silence => fault(&service, "timeout", &silent(silence), begun),
            BodyEnd::Broken(error) => {
                fault(&service, "upstream_aborted", &format!("broke its answer off ({})", chain(&error)), begun)
            }
        });
        let bounds = Bounds { bytes: ANSWER, line: is_event_stream(&head.headers).then_some(LINE) };
        let service = self.service.clone();
        let body = Bounded::new(body, bounds, move |excess| match excess {
            Excess::Bytes => {
                fault(&service, "answer_too_large", &format!("sent more than {} MB", ANSWER / 1_000_000), begun)
            }
            Excess::Line => {
                fault(&service, "answer_too_large", &format!("sent a line of more than {} MB", LINE / 1_000_000), begun)
            }
        });
        let mut answer = http::Response::new(body.boxed_unsync());
        *answer.status_mut() = head.status;
        *answer.headers_mut() = head.headers;
        Ok(answer)
    }
}

fn head_weight(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn silent(limit: Duration) -> String {
    format!("sent nothing for {} s", limit.as_secs_f32())
}

fn fault(service: &Service, code: &'static str, what: &str, begun: Instant) -> Error {
    let call = Call {
        url: Some(service.to_string()),
        duration_ms: u64::try_from(begun.elapsed().as_millis()).ok(),
        ..Call::default()
    };
    Error::new(By::ModelProxy, code, format!("the model proxy {service} {what}")).with_call(call)
}

/// Stands in where nothing that could answer was named.
#[derive(Debug)]
pub(crate) struct NoModelAccess;

#[async_trait]
impl Upstream for NoModelAccess {
    async fn answer(&self, _call: ModelCall) -> Result<http::Response<Body>> {
        Err(missing_model_access())
    }
}

/// What is wrong where nothing that could answer was named.
pub(crate) fn missing_model_access() -> Error {
    Error::new(
        By::ModelProxy,
        "missing_model_access",
        "nothing can answer for the model; set ANTHROPIC_API_KEY, name a model_proxy, or let a Script play it (model = …)",
    )
}
