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
use crate::outbound::coding::{Coding, Unknown, Unpacker, Unreadable};

/// The answer as the agent may have it. What goes wrong in it is an error of this call.
///
/// # Errors
///
/// `answer_encoded`: nobody could look into it.
pub(super) fn admit(answer: Response<Body>, number: u64, journal: &Arc<Journal>) -> Result<Response<Body>> {
    let redactor = journal.redactor();
    let (mut head, body) = answer.into_parts();
    let mut packed = None;
    if !redactor.is_idle() {
        packed = Coding::of(&head.headers).map_err(|Unknown(coding)| encoded(&coding))?.map(Packed::new);
        head.headers = headers(&head.headers, redactor);
    }
    let passage = redactor.passage();
    let body =
        Admitted { body, passage, packed, number, journal: journal.clone(), ready: VecDeque::new(), ended: false };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

fn encoded(coding: &str) -> Error {
    Error::new(
        By::ModelProxy,
        "answer_encoded",
        format!(
            "the model's answer came with content-encoding {coding}, although none was asked for, and redroom could not look \
             into it to keep its own keys out of it: have the model proxy honour accept-encoding: identity"
        ),
    )
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
    /// For a body that passes as it is, or not at all.
    packed: Option<Packed>,
    number: u64,
    journal: Arc<Journal>,
    /// What comes next, before anything more is read.
    ready: VecDeque<Result<Bytes>>,
    ended: bool,
}

/// A packed body on its way: what may pass of it, and what that says. Nothing can be taken out of it.
struct Packed {
    unpacker: Unpacker,
    /// Pieces that wait, each with the place in what the body says where it ends.
    waiting: VecDeque<(Bytes, u64)>,
    /// What is said in them, and where it begins.
    said: VecDeque<u8>,
    passed: u64,
}

impl Packed {
    fn new(coding: Coding) -> Self {
        Packed { unpacker: coding.unpacker(), waiting: VecDeque::new(), said: VecDeque::new(), passed: 0 }
    }

    /// This much of what it says may pass. `false` if it is not what it says: something was taken out.
    fn release(&mut self, passed: &[u8]) -> bool {
        self.passed += passed.len() as u64;
        passed.len() <= self.said.len() && self.said.drain(..passed.len()).eq(passed.iter().copied())
    }

    /// The pieces of which all that they say may pass.
    fn ready(&mut self) -> Option<Bytes> {
        let (_, end) = self.waiting.front()?;
        if *end <= self.passed { self.waiting.pop_front().map(|(piece, _)| piece) } else { None }
    }
}

impl Admitted {
    /// Takes a piece of the body.
    fn piece(&mut self, data: Bytes) {
        let Some(packed) = &mut self.packed else {
            let passed = self.passage.feed(&data);
            return self.take(passed);
        };
        let mut said = Vec::new();
        let unpacked = packed.unpacker.feed(&data, |bytes| said.extend_from_slice(bytes));
        packed.said.extend(&said);
        packed.waiting.push_back((data, packed.passed + packed.said.len() as u64));
        match unpacked {
            Ok(()) => {
                let passed = self.passage.feed(&said);
                self.take(passed);
            }
            Err(Unreadable) => self.fail(encoded("that is damaged, or says more than 64 MB")),
        }
    }

    fn take(&mut self, passed: std::result::Result<Vec<u8>, Disguised>) {
        let passed = match (&mut self.packed, passed) {
            (Some(packed), Ok(bytes)) => match packed.release(&bytes) {
                true => {
                    self.ready.extend(std::iter::from_fn(|| packed.ready()).map(Ok));
                    return;
                }
                false => Err(Disguised),
            },
            (_, passed) => passed,
        };
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
                        this.piece(data);
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
    use crate::outbound::coding::gzip;
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

    #[tokio::test]
    async fn a_packed_answer_passes_unchanged_unless_it_says_a_value_that_is_held() {
        let (_folder, journal) = journal(&[KEY]);
        let answer = |text: &str| {
            let packed = gzip(text.as_bytes());
            let pieces: Vec<Result<_>> =
                packed.chunks(5).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
            let body = StreamBody::new(stream::iter(pieces)).boxed_unsync();
            (packed, Response::builder().header("content-encoding", "gzip").body(body).unwrap())
        };
        // Ends as a held value begins, so that the last of it waits for the end.
        let (packed, honest) = answer(&format!("event: ping\n\n{}", &KEY[..9]));
        let passed = admit(honest, 1, &journal).unwrap();
        assert_eq!(passed.headers()["content-encoding"], "gzip");
        assert_eq!(passed.into_body().collect().await.unwrap().to_bytes(), packed);
        assert_eq!(journal.errors(), []);
        let (packed, telling) = answer(&format!("event: ping\n\n{KEY}\n\nevent: ping\n\n"));
        let mut body = admit(telling, 2, &journal).unwrap().into_body();
        let mut passed = Vec::new();
        let error = loop {
            match body.frame().await.expect("an error") {
                Ok(frame) => passed.extend(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), "held_value_answered");
        assert!(packed.starts_with(&passed) && passed.len() < packed.len());
        let mut said = Vec::new();
        Coding::Gzip.unpacker().feed(&passed, |bytes| said.extend_from_slice(bytes)).unwrap();
        assert!(!String::from_utf8(said).unwrap().contains(&KEY[..9]));
        let damaged = Response::builder().header("content-encoding", "gzip").body(full("plain text")).unwrap();
        assert_eq!(text(admit(damaged, 3, &journal).unwrap()).await.unwrap_err().code(), "answer_encoded");
    }

    #[test]
    fn an_answer_that_nobody_can_look_into_is_refused_where_something_is_held() {
        let answer = || Response::builder().header("content-encoding", "br").body(full("x")).unwrap();
        let (_folder, holding) = journal(&[KEY]);
        assert_eq!(admit(answer(), 1, &holding).err().unwrap().code(), "answer_encoded");
        let (_folder, holding_nothing) = journal(&[]);
        assert!(admit(answer(), 1, &holding_nothing).is_ok());
    }
}
