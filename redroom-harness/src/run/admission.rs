//! A model request on its way out of a run: read whole, looked into, and passed on as the very bytes that were looked at, or
//! refused. Whoever answers reads what was read here: the same bytes, called by the same type.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{By, Error, Result};
use crate::model::{Ask, Asks, BODY_LIMIT, Given, ModelCall, ProviderTools, of_body, of_head, plain};

/// How many requests may lie here at once, each of them whole; the others wait where they are.
const AT_ONCE: usize = 8;
/// From how many bytes on reading is no work for a thread that has others waiting.
const LARGE: usize = 256 * 1024;

/// What a run lets through to its model.
pub(super) struct Admission {
    given: Given,
    allowed: ProviderTools,
    room: Arc<Semaphore>,
}

/// Why a request goes nowhere, and the status that its sender gets.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) error: Error,
}

impl Admission {
    pub(super) fn new(given: Given, allowed: ProviderTools) -> Self {
        Admission { given, allowed, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// What a request asks of the provider, as far as it could be read, and the request itself if it may go on.
    pub(super) async fn admit(&self, call: ModelCall) -> (Vec<Ask>, std::result::Result<ModelCall, Refused>) {
        let mut asks = Asks::default();
        of_head(&call.target, [&call.headers, &call.withheld], &self.given, &mut asks);
        let admitted = self.read(call, &mut asks).await;
        let admitted = admitted.and_then(|call| match self.allowed.check(&asks) {
            Ok(()) if asks.is_overflown() => Err(unreadable("asks for more things than redroom looks at")),
            Ok(()) => Ok(call),
            Err(error) => Err(Refused { status: StatusCode::FORBIDDEN, error }),
        });
        (asks.into_vec(), admitted)
    }

    async fn read(&self, mut call: ModelCall, asks: &mut Asks) -> std::result::Result<ModelCall, Refused> {
        let permit = self.room.clone().acquire_owned().await.ok();
        let bytes = match Limited::new(call.body, BODY_LIMIT).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(Refused { status: StatusCode::PAYLOAD_TOO_LARGE, ..unreadable("is larger than 32 MB") });
            }
            Err(error) => return Err(Refused { status: StatusCode::BAD_GATEWAY, error: lost(error) }),
        };
        if !(bytes.is_empty() && matches!(call.method, Method::GET | Method::HEAD)) {
            let (headers, path) = (call.headers.clone(), path(&call.target).to_owned());
            let body = bytes.clone();
            let look = move || {
                let mut asks = Asks::default();
                let plain = plain(&headers, &body).map_err(str::to_owned)?;
                of_body(&path, plain.as_deref().unwrap_or(&body), &mut asks).map(|()| asks)
            };
            let seen = match bytes.len() {
                ..LARGE => look(),
                _ => tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| Err("could not be read".to_owned())),
            };
            asks.add_all(seen.map_err(|why| unreadable(&why))?);
            if call
                .headers
                .get(header::CONTENT_TYPE)
                .is_none_or(|kind| !kind.as_bytes().starts_with(b"application/json"))
            {
                call.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
        }
        call.headers.remove(header::CONTENT_LENGTH);
        call.body = Whole { bytes: Some(bytes), _permit: permit }.boxed_unsync();
        Ok(call)
    }
}

fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

fn unreadable(why: &str) -> Refused {
    let error = Error::new(
        By::Agent,
        "unreadable_request",
        format!("the body of a model request {why}; redroom cannot say what it asks for, so it went nowhere"),
    );
    Refused { status: StatusCode::BAD_REQUEST, error }
}

fn lost(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::redroom("model_request_lost", error.to_string()),
    }
}

/// The bytes that were looked at, and the room that they take.
struct Whole {
    bytes: Option<Bytes>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let bytes = self.bytes.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::HeaderMap;
    use http_body_util::StreamBody;

    use super::*;
    use crate::model::{AskKind, Body};
    use crate::outbound::full;

    const SEARCH: &str = r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[]}"#;

    fn admission(allowed: &[&str]) -> Admission {
        let given = Given::new("192.0.2.1:81", ["placeholder".to_owned()], []);
        Admission::new(given, ProviderTools::named(allowed.iter().copied()).unwrap())
    }

    fn post(body: Body, headers: &[(&'static str, &'static str)]) -> ModelCall {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        ModelCall {
            run: "run-1".into(),
            method: Method::POST,
            target: "/v1/messages?beta=true".into(),
            headers: map,
            withheld: HeaderMap::new(),
            body,
        }
    }

    #[tokio::test]
    async fn what_may_pass_passes_byte_for_byte_however_it_came_and_is_called_what_it_was_read_as() {
        let text = "{ \"model\" :\"m\",\n\t\"messages\":[], \"n\": 1.00 }\r\n";
        for size in [1, 7, 1000] {
            let chunks = text.as_bytes().chunks(size).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk))));
            let body = StreamBody::new(stream::iter(chunks.collect::<Vec<_>>())).boxed_unsync();
            let call = post(body, &[("content-type", "application/x-www-form-urlencoded"), ("content-length", "3")]);
            let (asks, admitted) = admission(&[]).admit(call).await;
            let call = admitted.unwrap();
            assert_eq!(asks, []);
            assert_eq!(call.headers["content-type"], "application/json");
            assert!(!call.headers.contains_key("content-length"));
            assert_eq!(http_body::Body::size_hint(&call.body).exact(), Some(text.len() as u64));
            assert_eq!(call.body.collect().await.unwrap().to_bytes(), text);
        }
        let call = post(full("{}"), &[("content-type", "application/json; charset=utf-8")]);
        let call = admission(&[]).admit(call).await.1.unwrap();
        assert_eq!(call.headers["content-type"], "application/json; charset=utf-8");
    }

    #[tokio::test]
    async fn what_is_refused_is_told_with_its_status_and_what_it_asked() {
        let (asks, refused) = admission(&[]).admit(post(full(SEARCH), &[])).await;
        let refused = refused.err().unwrap();
        assert_eq!((refused.status, refused.error.code()), (StatusCode::FORBIDDEN, "provider_tool_denied"));
        assert_eq!((asks[0].kind, asks[0].name.as_str()), (AskKind::ProviderTool, "web_search_20250305"));
        assert!(admission(&["web_search"]).admit(post(full(SEARCH), &[])).await.1.is_ok());
        let large = full(vec![b' '; BODY_LIMIT + 1]);
        for (body, headers, status) in [
            (full("no json"), &[][..], StatusCode::BAD_REQUEST),
            (full(""), &[], StatusCode::BAD_REQUEST),
            (full("{}"), &[("content-type", "multipart/form-data")], StatusCode::BAD_REQUEST),
            (large, &[], StatusCode::PAYLOAD_TOO_LARGE),
        ] {
            let refused = admission(&[]).admit(post(body, headers)).await.1.err().unwrap();
            assert_eq!((refused.status, refused.error.code()), (status, "unreadable_request"));
        }
        let mut call = post(full("{}"), &[]);
        call.withheld.insert("x-api-key", HeaderValue::from_static("sk-foreign"));
        let refused = admission(&["web_search"]).admit(call).await.1.err().unwrap();
        assert_eq!(refused.error.code(), "foreign_credentials");
    }

    #[tokio::test]
    async fn a_large_body_is_looked_into_as_well() {
        let large = format!("{{\"pad\":\"{}\",{}", "x".repeat(2 * LARGE), &SEARCH[1..]);
        let refused = admission(&[]).admit(post(full(large), &[])).await.1.err().unwrap();
        assert_eq!(refused.error.code(), "provider_tool_denied");
    }

    #[tokio::test]
    async fn no_more_than_a_few_bodies_lie_here_at_once() {
        let admission = admission(&[]);
        let mut waiting = Vec::new();
        for _ in 0..AT_ONCE {
            waiting.push(admission.admit(post(full("{}"), &[])).await.1.unwrap());
        }
        let next = admission.admit(post(full("{}"), &[]));
        let mut next = std::pin::pin!(next);
        assert!(futures_util::poll!(&mut next).is_pending());
        waiting.pop();
        assert!(next.await.1.is_ok());
    }
}
