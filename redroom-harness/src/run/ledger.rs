//! One run's tool calls by their ids: what the model's answers asked for, against what the hook reported and what came back
//! to the model.
//!
//! Answers and results are facts of this side, hook calls are claims. Knows nothing of sandboxes and guards.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use crate::error::{By, Error, Result};
use crate::evidence::InModelAnswer;
use crate::guard::ToolCall;
use crate::model::{AnswerBlocks, Body, RequestBlocks, ToolBlock};
use crate::outbound::coding::Coding;

/// The most tool uses that are remembered.
const MAX_USES: usize = 10_000;
/// How many calls an error names.
const NAMED: usize = 5;

/// One run's tool calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    uses: HashMap<String, Use>,
    /// Whether any answer was read.
    reads: bool,
    /// Whether there were answers, or parts of some, that nobody could read.
    has_gaps: bool,
}

/// A tool use of a model's answer.
#[derive(Debug)]
struct Use {
    tool: String,
    /// Its place among the others.
    number: usize,
    reported: bool,
    ran: bool,
}

impl Ledger {
    /// A request's body, read for the results in it as it passes.
    pub(super) fn request(self: &Arc<Self>, body: Body) -> Body {
        let (ledger, mut blocks) = (self.clone(), RequestBlocks::default());
        overheard(body, move |bytes| {
            blocks.feed(bytes, &mut |block| match block {
                ToolBlock::Result { id, failed: false } => ledger.came_back(&id),
                ToolBlock::Result { .. } | ToolBlock::Use { .. } => {}
            });
        })
    }

    /// An answer, read for the tools that it calls as it passes: the agent learns of none before it stands here.
    pub(super) fn answer(self: &Arc<Self>, answer: Response<Body>) -> Response<Body> {
        if !answer.status().is_success() {
            return answer;
        }
        let Ok(coding) = Coding::of(answer.headers()) else {
            self.state().has_gaps = true;
            return answer;
        };
        self.state().reads = true;
        let (ledger, mut blocks) = (self.clone(), AnswerBlocks::default());
        let mut read = move |bytes: &[u8]| {
            blocks.feed(bytes, &mut |block| match block {
                ToolBlock::Use { id, name } => ledger.asked_for(id, name),
                ToolBlock::Result { .. } => {}
            });
        };
        let (ledger, mut unpacker) = (self.clone(), coding.map(Coding::unpacker));
        answer.map(|body| {
            overheard(body, move |bytes| match &mut unpacker {
                None => read(bytes),
                Some(packed) => {
                    if packed.feed(bytes, &mut read).is_err() {
                        ledger.state().has_gaps = true;
                    }
                }
            })
        })
    }

    /// The hook reports a call.
    pub(super) fn reported(&self, call: &ToolCall) -> InModelAnswer {
        let mut state = self.state();
        let reads_all = state.reads && !state.has_gaps;
        match state.uses.get_mut(&call.tool_use_id) {
            Some(asked) => {
                asked.reported = true;
                // Anybody in the sandbox can report something else under the id of a call that it has read.
                if asked.tool == call.tool_name { InModelAnswer::Matched } else { InModelAnswer::Unmatched }
            }
            None if reads_all => InModelAnswer::Unmatched,
            None => InModelAnswer::Unknown,
        }
    }

    /// What is wrong if calls ran that no hook reported: nobody saw or checked them.
    pub(super) fn unreported(&self) -> Option<Error> {
        let state = self.state();
        let mut unseen: Vec<(&String, &Use)> =
            state.uses.iter().filter(|(_, asked)| asked.ran && !asked.reported).collect();
        unseen.sort_by_key(|(_, asked)| asked.number);
        let mut named: Vec<String> =
            unseen.iter().take(NAMED).map(|(id, asked)| format!("{} ({id})", asked.tool)).collect();
        if unseen.len() > NAMED {
            named.push(format!("and {} more", unseen.len() - NAMED));
        }
        (!unseen.is_empty()).then(|| {
            Error::new(
                By::Agent,
                "hook_not_called",
                format!(
                    "the agent ran tools that its model asked for without calling its tool hook, so nobody saw or checked them: \
                     {}; look at its managed settings",
                    named.join(", ")
                ),
            )
        })
    }

    fn asked_for(&self, id: String, tool: String) {
        let mut state = self.state();
        let number = state.uses.len();
        if number < MAX_USES {
            state.uses.entry(id).or_insert(Use { tool, number, reported: false, ran: false });
        } else {
            state.has_gaps = true;
        }
    }

    fn came_back(&self, id: &str) {
        if let Some(asked) = self.state().uses.get_mut(id) {
            asked.ran = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that somebody listens to.
struct Overheard<F> {
    body: Body,
    hear: F,
}

fn overheard(body: Body, hear: impl FnMut(&[u8]) + Send + Unpin + 'static) -> Body {
    Overheard { body, hear }.boxed_unsync()
}

impl<F: FnMut(&[u8]) + Unpin> http_body::Body for Overheard<F> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            (this.hear)(data);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::guard::HookEvent;
    use crate::outbound::full;

    async fn answered(ledger: &Arc<Ledger>, status: u16, calls: &[(&str, &str)]) {
        let content: Vec<Value> =
            calls.iter().map(|(id, name)| json!({ "type": "tool_use", "id": id, "name": name, "input": {} })).collect();
        let answer = Response::builder().status(status).body(full(json!({ "content": content }).to_string())).unwrap();
        ledger.answer(answer).into_body().collect().await.unwrap();
    }

    async fn came_back(ledger: &Arc<Ledger>, id: &str, failed: bool) {
        let result = json!({ "type": "tool_result", "tool_use_id": id, "is_error": failed, "content": "x" });
        let request = json!({ "messages": [{ "role": "user", "content": [result] }] });
        ledger.request(full(request.to_string())).collect().await.unwrap();
    }

    fn reported(ledger: &Ledger, id: &str, tool: &str) -> InModelAnswer {
        let payload = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": tool, "tool_input": {}, "tool_use_id": id,
        });
        let Ok(HookEvent::PreToolUse(call)) = HookEvent::parse(payload.to_string().as_bytes()) else { panic!() };
        ledger.reported(&call)
    }

    #[tokio::test]
    async fn a_report_is_matched_by_an_answer_that_asked_for_this_tool_under_this_id() {
        let ledger = Arc::new(Ledger::default());
        assert_eq!(reported(&ledger, "toolu_1", "Bash"), InModelAnswer::Unknown);
        answered(&ledger, 200, &[("toolu_1", "Bash")]).await;
        answered(&ledger, 529, &[("toolu_2", "Bash")]).await;
        assert_eq!(reported(&ledger, "toolu_1", "Bash"), InModelAnswer::Matched);
        assert_eq!(reported(&ledger, "toolu_1", "Read"), InModelAnswer::Unmatched);
        assert_eq!(reported(&ledger, "toolu_2", "Bash"), InModelAnswer::Unmatched);
    }

    #[tokio::test]
    async fn a_call_that_ran_and_was_not_reported_is_an_error() {
        let ledger = Arc::new(Ledger::default());
        answered(
            &ledger,
            200,
            &[("toolu_1", "Bash"), ("toolu_2", "Read"), ("toolu_3", "Nothing"), ("toolu_4", "Grep")],
        )
        .await;
        reported(&ledger, "toolu_1", "Bash");
        for (id, failed) in [("toolu_1", false), ("toolu_3", true), ("toolu_of_nobody", false)] {
            came_back(&ledger, id, failed).await;
        }
        assert_eq!(ledger.unreported(), None);
        came_back(&ledger, "toolu_2", false).await;
        let error = ledger.unreported().unwrap();
        assert_eq!((error.by(), error.code()), (By::Agent, "hook_not_called"));
        assert!(error.detail().contains("Read (toolu_2);"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_can_read_makes_no_report_a_lie() {
        let ledger = Arc::new(Ledger::default());
        answered(&ledger, 200, &[]).await;
        assert_eq!(reported(&ledger, "toolu_1", "Bash"), InModelAnswer::Unmatched);
        for coding in ["br", "gzip"] {
            let ledger = Arc::new(Ledger::default());
            answered(&ledger, 200, &[]).await;
            let packed = Response::builder().header("content-encoding", coding).body(full("x is not gzip")).unwrap();
            ledger.answer(packed).into_body().collect().await.unwrap();
            assert_eq!(reported(&ledger, "toolu_1", "Bash"), InModelAnswer::Unknown, "{coding}");
        }
    }

    #[tokio::test]
    async fn a_packed_answer_is_read() {
        let ledger = Arc::new(Ledger::default());
        let content = json!({ "content": [{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }] });
        let packed = crate::outbound::coding::gzip(content.to_string().as_bytes());
        let packed = Response::builder().header("content-encoding", "gzip").body(full(packed)).unwrap();
        ledger.answer(packed).into_body().collect().await.unwrap();
        assert_eq!(reported(&ledger, "toolu_1", "Bash"), InModelAnswer::Matched);
        assert_eq!(reported(&ledger, "toolu_2", "Bash"), InModelAnswer::Unmatched);
    }
}
