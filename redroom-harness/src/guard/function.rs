//! A guard that is an async function in the test.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Decision, Judge, Kind, ToolCall, ToolCallCheck, UrlCheck};
use crate::error::{By, Error, Result};
use crate::model::panic_text;

/// Something that checks tool calls: a service's URL, a [`UrlCheck`] (a URL with headers), an async function from [`ToolCall`] to [`Decision`], or
/// [`ToolCallCheck::none`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no guard",
    label = "not an async function from `ToolCall` to `Decision`, nor a URL",
    note = "write `async fn guard(call: ToolCall) -> Decision`, `{{ url: \"…\" }}`, or `none` in place of the suite's"
)]
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
        // On a thread of its own: a function that blocks it holds up neither the clock that it is given nor other calls. It is
        // dropped at its next `await` when nobody waits for it any more.
        let (function, runtime) = (Arc::clone(&self.0), Handle::current());
        let (waiting, given_up) = oneshot::channel::<()>();
        let task = tokio::task::spawn_blocking(move || {
            runtime.block_on(async move {
                tokio::select! {
                    decision = function(call) => Some(decision),
                    _ = given_up => None,
                }
            })
        });
        let ended = task.await;
        drop(waiting);
        match ended {
            Ok(Some(decision)) => Ok(decision.answer()),
            Ok(None) => Err(Error::new(By::ToolCallCheck, "timeout", "the test's guard was given up")),
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

#[diagnostic::do_not_recommend]
impl<F, Fut> IntoToolCallCheck for F
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Decision> + Send + 'static,
{
    fn into_tool_call_check(self) -> ToolCallCheck {
        ToolCallCheck(Kind::Function(Arc::new(Function(Arc::new(self)))))
    }
}

/// A service's URL.
impl IntoToolCallCheck for &str {
    fn into_tool_call_check(self) -> ToolCallCheck {
        ToolCallCheck::url(self).into()
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
