//! The one error that redroom gives: who it is about, a stable code, and what to do.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Shorthand with [`Error`] filled in; an attack may use any error that can be displayed.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something that did not go to plan. Stored in `result.errors` too, so that a stored result says why.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    by: By,
    code: Cow<'static, str>,
    detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<Call>,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum By {
    /// redroom, or how it was asked.
    Redroom,
    /// What runs the sandbox: the Docker engine, the kernel.
    Backend,
    /// The agent's program.
    Agent,
    /// The sidecar of a slot.
    Sidecar,
    /// What answers for the model.
    ModelProxy,
    /// The team's guard.
    ToolCallCheck,
}

/// The call that failed, as far as there was one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Call {
    /// A command, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// A URL, without user, password or query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// An HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl Error {
    /// An error with a stable, lower-case code and a detail that tells the user what happened and what to do.
    pub fn new(by: By, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Error(Box::new(Inner { by, code: code.into(), detail: detail.into(), call: None }))
    }

    pub(crate) fn redroom(code: &'static str, detail: impl Into<String>) -> Self {
        Error::new(By::Redroom, code, detail)
    }

    pub(crate) fn backend(code: &'static str, detail: impl Into<String>) -> Self {
        Error::new(By::Backend, code, detail)
    }

    /// The same error with the call that failed.
    #[must_use]
    pub fn with_call(mut self, call: Call) -> Self {
        self.0.call = Some(call);
        self
    }

    /// The same error with its detail passed through `edit`: how held secrets are taken out in one place.
    #[must_use]
    pub(crate) fn map_detail(mut self, edit: impl FnOnce(&str) -> String) -> Self {
        self.0.detail = edit(&self.0.detail);
        self
    }

    /// Whose fault it is.
    pub fn by(&self) -> By {
        self.0.by
    }

    /// The stable code, to filter by.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// What happened and what to do.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The call that failed, if there was one.
    pub fn call(&self) -> Option<&Call> {
        self.0.call.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.detail())
    }
}

/// What `unwrap` and `{errors:?}` show: whose fault it is, and what is displayed, as plain text.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code(), self.by(), self.detail())?;
        match self.call() {
            Some(call) => write!(f, "; {call:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Redroom => "redroom",
            By::Backend => "backend",
            By::Agent => "agent",
            By::Sidecar => "sidecar",
            By::ModelProxy => "model_proxy",
            By::ToolCallCheck => "tool_call_check",
        })
    }
}

/// The whole chain of causes of an error from elsewhere, as one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = inner.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unwrap_shows_can_be_read_and_tells_whose_fault_it_is() {
        let error = Error::new(By::ToolCallCheck, "network_error", "the guard says \"no\"");
        assert_eq!(format!("{error:?}"), "network_error (tool_call_check): the guard says \"no\"");
        let error = error.with_call(Call { exit_code: Some(1), ..Call::default() });
        assert!(format!("{error:?}").contains("exit_code: Some(1)"), "{error:?}");
    }
}
