//! What can play the model inside this process, and what playing is: a conversation in, an answer out.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;

use super::answer::Answer;
use super::conversation::Conversation;
use super::script::Script;
use crate::error::{By, Error, Result};

/// Something that plays the model: a [`Script`], or an async function from [`Conversation`] to whatever converts into an
/// [`Answer`].
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::{Answer, Conversation, IntoModel as _};
///
/// async fn parrot(conversation: Conversation) -> Answer {
///     Answer::say(conversation.prompt())
/// }
/// let model = parrot.into_model();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` plays no model",
    label = "not a `Script`, nor an async function from `Conversation` to an answer",
    note = "which model an agent asks for is said to the agent: `agent = ClaudeCode::new(\"…\").model(\"sonnet\")`"
)]
pub trait IntoModel {
    /// The model that it plays.
    fn into_model(self) -> Model;
}

/// What plays the model. Cheap to clone.
#[derive(Clone)]
pub struct Model(Arc<dyn Play>);

impl Model {
    /// The next answer. A panic of the user's code is an error of the model's, not of the process.
    pub(super) async fn play(&self, conversation: Conversation) -> Result<Played> {
        AssertUnwindSafe(self.0.play(conversation)).catch_unwind().await.unwrap_or_else(|panic| {
            let says = panic_text(panic.as_ref());
            Err(Error::new(By::ModelProxy, "model_panicked", format!("the test's model panicked: {says}")))
        })
    }
}

/// The seam between the wire format and what plays the model.
#[async_trait]
pub(super) trait Play: Send + Sync {
    async fn play(&self, conversation: Conversation) -> Result<Played>;
}

/// What was played.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) answer: Answer,
    /// The number of the answer within its conversation: it goes into the ids, so that a repeated request gets the same
    /// ones.
    pub(super) position: usize,
    /// What the result's errors should say although the agent was answered.
    pub(super) note: Option<Error>,
}

/// Ids of tool calls end in the position of their answer and their number in it.
pub(super) fn call_id(seed: &str, position: usize, number: usize) -> String {
    format!("toolu_rr{seed}_{position}_{number}")
}

/// The position in the id of a call that was made here.
pub(super) fn call_position(id: &str) -> Option<usize> {
    let mut parts = id.strip_prefix("toolu_rr")?.rsplitn(3, '_');
    let _number: usize = parts.next()?.parse().ok()?;
    let position: usize = parts.next()?.parse().ok()?;
    (parts.next().is_some() && position < usize::MAX).then_some(position)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

struct Function<F>(F);

#[async_trait]
impl<F, Fut, A> Play for Function<F>
where
    F: Fn(Conversation) -> Fut + Send + Sync,
    Fut: Future<Output = A> + Send,
    A: Into<Answer>,
{
    async fn play(&self, conversation: Conversation) -> Result<Played> {
        let position = conversation.position();
        let answer = (self.0)(conversation).await.into();
        Ok(Played { answer, position, note: None })
    }
}

#[diagnostic::do_not_recommend]
impl<F, Fut, A> IntoModel for F
where
    F: Fn(Conversation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = A> + Send + 'static,
    A: Into<Answer> + 'static,
{
    fn into_model(self) -> Model {
        Model(Arc::new(Function(self)))
    }
}

impl IntoModel for Script {
    fn into_model(self) -> Model {
        Model(Arc::new(self))
    }
}

impl IntoModel for Model {
    fn into_model(self) -> Model {
        self
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}
