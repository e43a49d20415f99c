//! A model's answer on its way into the sandbox: without values that are held on this side, and told of where it breaks off.
//!
//! A service that is asked with a key may say it back, in a header, an error or the middle of a stream. Streams pass as
//! they come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::error::{By, Error, Result};
use crate::evidence::{Disguised, Journal, Passage, Redactor};
use crate::model::Body;

/// The answer as the agent may have it. What goes wrong in it is an error of this call.
///
/// # Errors
///
/// `answer_encoded`: nobody could look into it.
pub(super) fn admit(answer: Response<Body>, number: u64, journal: &Arc<Journal>) -> Result<Response<Body>> {
    let redactor = journal.redactor();
    let (mut head, body) = answer.into_parts();
    if !redactor.is_idle() {
        if let Some(encoding) = encoding(&head.headers) {
            return Err(Error::new(
                By::ModelProxy,
                "answer_encoded",
                format!(
                    "the model's answer came with content-encoding {encoding}, although none was asked for; redroom could \
                     not keep its own keys out of it: have the model proxy honour accept-encoding: identity"
                ),
            ));
        }
        head.headers = headers(&head.headers, redactor);
    }
    let passage = redactor.passage();
    let body = Admitted { body, passage, number, journal: journal.clone(), ready: VecDeque::new(), ended: false };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// How the body was encoded, if it was.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let encodings =
        headers.get_all(header::CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    encodings.map(|encoding| encoding.trim().to_owned()).find(|encoding| !matches!(encoding.as_str(), "" | "identity"))
}

/// The headers without held values, and without a length that may not be that of what arrives.
fn headers(headers: &HeaderMap, redactor: &Redactor) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if name == header::CONTENT_LENGTH || redactor.finds(name.as_str().as_bytes()) {
            continue;
        }
        let value = match redactor.finds(value.as_bytes()) {
            true => HeaderValue::try_from(redactor.bytes(value.as_bytes().to_vec())).ok(),
            false => Some(value.clone()),
        };
        if let Some(value) = value {
            kept.append(name, value);
        }
    }
    kept
}

/// An answer's body. Trailers are not passed on.
struct Admitted {
    body: Body,
    passage: Passage,
    number: u64,
    journal: Arc<Journal>,
    /// What comes next, before anything more is read.
    ready: VecDeque<Result<Bytes>>,
    ended: bool,
}

impl Admitted {
    fn take(&mut self, passed: std::result::Result<Vec<u8>, Disguised>) {
        match passed {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => self.ready.push_back(Ok(bytes.into())),
            Err(Disguised) => self.fail(Error::new(
                By::ModelProxy,
                "held_value_answered",
                "the model's answer held a value that redroom holds (a header of the model proxy or of the guard, or the \
                 provider's key) in a disguise that could not be taken out, so it was broken off: keep what answers from \
                 saying it",
            )),
        }
    }

    fn fail(&mut self, error: Error) {
        self.journal.model_call_failed(self.number, error.clone());
        self.ended = true;
        self.ready.push_back(Err(error));
    }
}

impl http_body::Body for Admitted {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if let Some(next) = this.ready.pop_front() {
                return Poll::Ready(Some(next.map(Frame::data)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        let passed = this.passage.feed(&data);
                        this.take(passed);
                    }
                }
                Some(Err(error)) => this.fail(error),
                None => {
                    this.ended = true;
                    let rest = this.passage.end();
                    this.take(rest);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;
    use redroom_sidecar::search::SecretSet;

    use super::*;
    use crate::evidence::Store;
    use crate::outbound::full;

    const KEY: &str = "sk-held-7f3a-quoted";

    fn journal(held: &[&str]) -> (tempfile::TempDir, Arc<Journal>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::create(folder.path(), "run").unwrap());
        let redactor = Redactor::new(held.iter().copied());
        (folder, Arc::new(Journal::new(SecretSet::new([("", "")]), redactor, store)))
    }

    fn in_pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<Result<_>> =
            pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).collect();
        StreamBody::new(stream::iter(pieces)).boxed_unsync()
    }

    async fn text(answer: Response<Body>) -> Result<String> {
        Ok(String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_value_in_head_or_body_is_taken_out_and_the_length_with_it() {
        let (_folder, journal) = journal(&[KEY]);
        let answer = Response::builder()
            .header("content-length", "26")
            .header("location", format!("https://elsewhere.example/?key={KEY}"))
            .header(format!("x-{KEY}"), "1")
            .header("request-id", "kept")
            .body(in_pieces(&["{\"key\":\"sk-held-7f", "3a-quoted\"}"]))
            .unwrap();
        let answer = admit(answer, 1, &journal).unwrap();
        let names: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["location", "request-id"]);
        assert_eq!(answer.headers()["location"], "https://elsewhere.example/?key=[redacted]");
        assert_eq!(text(answer).await.unwrap(), "{\"key\":\"[redacted]\"}");
        assert_eq!(journal.errors(), []);
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_or_has_to_be_is_an_error_of_its_call() {
        let (_folder, journal) = journal(&[KEY]);
        let broken: Vec<Result<Frame<Bytes>>> =
            vec![Ok(Frame::data(Bytes::from_static(b"x"))), Err(Error::redroom("timeout", "silent"))];
        let answer = Response::new(StreamBody::new(stream::iter(broken)).boxed_unsync());
        assert_eq!(text(admit(answer, 1, &journal).unwrap()).await.unwrap_err().code(), "timeout");
        let spaced: String = KEY.bytes().map(|byte| format!("{byte:02x} ")).collect();
        let answer = admit(Response::new(full(spaced)), 2, &journal).unwrap();
        assert_eq!(text(answer).await.unwrap_err().code(), "held_value_answered");
        let codes: Vec<_> = journal.errors().iter().map(|error| error.code().to_owned()).collect();
        assert_eq!(codes, ["timeout", "held_value_answered"]);
    }

    #[test]
    fn an_answer_that_nobody_can_look_into_is_refused_where_something_is_held() {
        let answer = || Response::builder().header("content-encoding", "gzip").body(full("x")).unwrap();
        let (_folder, holding) = journal(&[KEY]);
        assert_eq!(admit(answer(), 1, &holding).err().unwrap().code(), "answer_encoded");
        let (_folder, holding_nothing) = journal(&[]);
        assert!(admit(answer(), 1, &holding_nothing).is_ok());
    }
}
