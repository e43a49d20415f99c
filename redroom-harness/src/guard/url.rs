//! A guard that is a service: its address, its headers, and how it is asked.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;

use super::{Judge, Kind, ToolCall, ToolCallCheck};
use crate::error::{By, Call, Error, Result, chain};
use crate::outbound::{Address, Client, RUN_HEADER, SecretHeaders, Service, full};

/// The most that a guard may answer, in bytes.
const ANSWER_LIMIT: usize = 1_000_000;

/// A guard that is a service. Made by [`ToolCallCheck::url`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlCheck {
    url: Address,
    #[serde(default)]
    headers: SecretHeaders,
}

impl UrlCheck {
    pub(super) fn new(url: impl Into<String>) -> Self {
        UrlCheck { url: Address::new(url), headers: SecretHeaders::default() }
    }

    /// Adds a header to every question. The value is a secret and never shown: one of 8 characters or more is taken out of
    /// whatever is stored, and out of what the guard answers to the agent. So is what stands in the address's query.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(name.into(), value.into());
        self
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.headers.secrets().chain(self.url.secrets()).collect()
    }

    /// Its service and its headers, if they can be such.
    ///
    /// # Errors
    ///
    /// `invalid_tool_call_check`, with what to write.
    pub(crate) fn check(&self) -> Result<(Service, HeaderMap)> {
        let service = self.url.parse().map_err(|why| invalid(&format!("url {why}")))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let own = self.headers.parse().map_err(|why| invalid(&format!("cannot be used: {why}")))?;
        for (name, value) in &own {
            headers.insert(name, value.clone());
        }
        Ok((service, headers))
    }

    pub(super) fn open(&self, client: &Client) -> Result<Asked> {
        let (service, headers) = self.check()?;
        let uri = service.uri().map_err(|error| invalid(&format!("url cannot be asked ({error})")))?;
        Ok(Asked { client: client.clone(), service, uri, headers })
    }
}

fn invalid(why: &str) -> Error {
    Error::new(By::ToolCallCheck, "invalid_tool_call_check", format!("the tool call check {why}"))
}

impl From<UrlCheck> for ToolCallCheck {
    fn from(check: UrlCheck) -> Self {
        ToolCallCheck(Kind::Url(check))
    }
}

/// A service that is ready to be asked.
pub(super) struct Asked {
    client: Client,
    service: Service,
    uri: http::Uri,
    headers: HeaderMap,
}

impl Asked {
    fn error(&self, code: impl Into<std::borrow::Cow<'static, str>>, what: &str, status: Option<u16>) -> Error {
        let call = Call { url: Some(self.service.to_string()), status, ..Call::default() };
        Error::new(By::ToolCallCheck, code, format!("the guard {} {what}", self.service)).with_call(call)
    }
}

#[async_trait]
impl Judge for Asked {
    async fn judge(&self, run: &str, payload: &Bytes, _call: ToolCall) -> Result<Bytes> {
        let mut request = http::Request::new(full(payload.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let run = HeaderValue::try_from(run)
            .map_err(|_| self.error("network_error", "cannot be told which run it is about", None))?;
        request.headers_mut().insert(RUN_HEADER, run);
        let response = self.client.send(request).await.map_err(|error| {
            self.error("network_error", &format!("could not be asked ({}); check its url", chain(&error)), None)
        })?;
        let status = response.status();
        if !status.is_success() {
            let code = format!("http_{}", status.as_u16());
            return Err(self.error(code, &format!("answered {status}"), Some(status.as_u16())));
        }
        match Limited::new(response.into_body(), ANSWER_LIMIT).collect().await {
            Ok(answer) => Ok(answer.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                let what = format!("answered more than {ANSWER_LIMIT} bytes");
                Err(self.error("response_too_large", &what, Some(status.as_u16())))
            }
            Err(error) => {
                let what = format!("broke its answer off ({})", chain(error.as_ref()));
                Err(self.error("network_error", &what, Some(status.as_u16())))
            }
        }
    }

    fn place(&self) -> Option<String> {
        Some(self.service.to_string())
    }
}
