//! A guard that is an async function in the test.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;

use super::{Decision, Judge, Kind, ToolCall, ToolCallCheck, UrlCheck};
use crate::error::{By, Error, Result};
use crate::model::panic_text;

/// Something that checks tool calls: a [`UrlCheck`], an async function from [`ToolCall`] to [`Decision`], or
/// [`ToolCallCheck::none`].
pub trait IntoToolCallCheck {
    /// The check that it is.
    fn into_tool_call_check(self) -> ToolCallCheck;
}

struct Function<F>(Arc<F>);

#[async_trait]
impl<F, Fut> Judge for Function<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Decision> + Send + 'static,
{
    async fn judge(&self, _run: &str, _payload: &Bytes, call: ToolCall) -> Result<Bytes> {
        // A task of its own: a function that blocks its thread cannot hold up the clock that it is given.
        let function = Arc::clone(&self.0);
        let task = AbortOnDropHandle::new(tokio::spawn(async move { function(call).await }));
        match task.await {
            Ok(decision) => Ok(decision.answer()),
            Err(ended) => {
                let panic = ended.try_into_panic().ok();
                let says = panic.as_deref().map_or("(cancelled)", panic_text);
                Err(Error::new(By::ToolCallCheck, "guard_panicked", format!("the test's guard panicked: {says}")))
            }
        }
    }

    fn place(&self) -> Option<String> {
        None
    }
}

impl<F, Fut> IntoToolCallCheck for F
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Decision> + Send + 'static,
{
    fn into_tool_call_check(self) -> ToolCallCheck {
        ToolCallCheck(Kind::Function(Arc::new(Function(Arc::new(self)))))
    }
}

impl IntoToolCallCheck for UrlCheck {
    fn into_tool_call_check(self) -> ToolCallCheck {
        self.into()
    }
}

impl IntoToolCallCheck for ToolCallCheck {
    fn into_tool_call_check(self) -> ToolCallCheck {
        self
    }
}
