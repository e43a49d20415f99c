//! A guard that is an async function in the test.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;

use super::{Decision, Judge, Kind, ToolCall, ToolCallCheck, UrlCheck};
use crate::error::{By, Error, Result};
use crate::model::panic_text;

/// Something that checks tool calls: a [`UrlCheck`], an async function from [`ToolCall`] to [`Decision`], or
/// [`ToolCallCheck::none`].
pub trait IntoToolCallCheck {
    /// The check that it is.
    fn into_tool_call_check(self) -> ToolCallCheck;
}

struct Function<F>(F);

#[async_trait]
impl<F, Fut> Judge for Function<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync,
    Fut: Future<Output = Decision> + Send,
{
    async fn judge(&self, _run: &str, _payload: &Bytes, call: ToolCall) -> Result<Bytes> {
        // The call, too: a function may panic before it gives a future back.
        match AssertUnwindSafe(async { (self.0)(call).await }).catch_unwind().await {
            Ok(decision) => Ok(decision.answer()),
            Err(panic) => {
                let detail = format!("the test's guard panicked: {}", panic_text(panic.as_ref()));
                Err(Error::new(By::ToolCallCheck, "guard_panicked", detail))
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
        ToolCallCheck(Kind::Function(Arc::new(Function(self))))
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
