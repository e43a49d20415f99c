//! The tool calls of an agent without a tool hook: its model's words, read off the answers on their way to it.
//!
//! That the model asked for a tool is a fact; that the agent ran it, with these arguments, is not known, and nobody could have
//! stopped it. Read when an answer has ended: what a call then does in the fake internet comes after it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, header};
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::agent::ModelApi;
use crate::error::{Error, Result};
use crate::evidence::{Journal, RecordedToolCall};
use crate::model::{Body, tool_uses};

/// The most of an answer that is read, in bytes: more than any model says.
const ANSWER_LIMIT: usize = 8 * 1024 * 1024;

/// An answer that is read as it passes.
pub(super) fn read(answer: Response<Body>, api: ModelApi, journal: &Arc<Journal>) -> Response<Body> {
    let packed = answer.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    if packed || !answer.status().is_success() || api == ModelApi::Other {
        return answer;
    }
    let journal = journal.clone();
    answer.map(|body| Read { body, heard: Some(Vec::new()), api, journal }.boxed_unsync())
}

struct Read {
    body: Body,
    /// What was said so far; `None` once it was too much, or has been taken down.
    heard: Option<Vec<u8>>,
    api: ModelApi,
    journal: Arc<Journal>,
}

impl Read {
    fn hear(&mut self, bytes: &[u8]) {
        let Some(heard) = &mut self.heard else { return };
        if heard.len() + bytes.len() > ANSWER_LIMIT {
            tracing::warn!("an answer of the model was too large to look for tool calls in it");
            self.heard = None;
        } else {
            heard.extend_from_slice(bytes);
        }
    }

    fn take_down(&mut self) {
        let Some(heard) = self.heard.take() else { return };
        for call in tool_uses(self.api, &heard) {
            self.journal.tool_call(RecordedToolCall::answered(self.journal.at_ms(), call));
        }
    }
}

impl Drop for Read {
    /// An agent may leave before the end of what it has understood.
    fn drop(&mut self) {
        self.take_down();
    }
}

impl http_body::Body for Read {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.hear(data);
                }
                // Before the agent has the end of it, where that is known.
                if this.body.is_end_stream() {
                    this.take_down();
                }
            }
            Some(Err(_)) | None => this.take_down(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use redroom_sidecar::search::SecretSet;
    use serde_json::json;

    use super::*;
    use crate::evidence::{CallSource, Claim, Redactor, Store};
    use crate::guard::RecordedDecision;
    use crate::outbound::full;

    fn journal() -> (tempfile::TempDir, Arc<Journal>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::create(folder.path(), "run").unwrap());
        (folder, Arc::new(Journal::new(SecretSet::new([("key", "PLATYPUS-7731")]), Redactor::new([""; 0]), store)))
    }

    fn answer() -> String {
        let input = json!({ "command": "echo PLATYPUS-7731" });
        json!({ "content": [{ "type": "tool_use", "id": "toolu_1", "name": "bash", "input": input }] }).to_string()
    }

    async fn pass(answer: Response<Body>, journal: &Arc<Journal>) {
        read(answer, ModelApi::AnthropicMessages, journal).into_body().collect().await.unwrap();
    }

    #[tokio::test]
    async fn a_models_call_is_recorded_once_as_what_nobody_decided_on() {
        let (_folder, journal) = journal();
        pass(Response::new(full(answer())), &journal).await;
        // The agent asks again, and is told the same.
        pass(Response::new(full(answer())), &journal).await;
        let [call] = &journal.tool_calls()[..] else { panic!("{:?}", journal.tool_calls()) };
        assert_eq!((call.tool.as_str(), call.tool_use_id.as_deref(), call.reported), ("bash", Some("toolu_1"), 2));
        assert_eq!(
            (call.source, call.decision, call.checked),
            (CallSource::ModelAnswer, RecordedDecision::Unasked, false)
        );
        assert_eq!((call.claim, call.denied()), (Claim::Matched, false));
        assert_eq!(call.secrets[0].secret, "key");
    }

    #[tokio::test]
    async fn an_answer_that_the_agent_leaves_or_that_is_a_failure_is_read_as_far_as_it_came() {
        let (_folder, journal) = journal();
        let failed = Response::builder().status(529).body(full(answer())).unwrap();
        pass(failed, &journal).await;
        assert_eq!(journal.tool_calls(), []);
        let mut left = read(Response::new(full(answer())), ModelApi::AnthropicMessages, &journal).into_body();
        left.frame().await.unwrap().unwrap();
        drop(left);
        assert_eq!(journal.tool_calls().len(), 1);
    }
}
