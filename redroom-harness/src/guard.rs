//! The team's own check of tool calls: what it is asked, what it may say, and what comes of it when it fails.
//!
//! Fails closed. What is recorded is the decision that the agent acts on, not what the guard may have meant. Knows the form
//! of the agent's hook, and nothing of sandboxes or models.

pub(crate) mod arguments;
mod conformance;
mod decision;
mod function;
mod payload;
#[cfg(test)]
mod tests;
mod unheard;
mod url;
mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::wire::HOOK_PAYLOAD_LIMIT;
use serde_json::Value;
use tokio::time::{Instant, timeout};

pub use conformance::{Conformance, Payload, Row, SECRET, VERSION, conformance, payloads};
pub use decision::{Decision, RecordedDecision};
pub use function::IntoToolCallCheck;
pub use payload::ToolCall;
pub use url::UrlCheck;

pub(crate) use payload::HookEvent;

use crate::error::{By, Call, Error, Result};
use crate::outbound::Client;
pub(crate) use verdict::Verdict;

/// How long a guard may take; the sidecar waits longer, and the agent's hook longer still.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);

/// The team's own check, asked about each tool call before it happens.
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::{Decision, IntoToolCallCheck as _, ToolCall, ToolCallCheck};
///
/// let service = ToolCallCheck::url("https://guard.example.com/pre-tool-use").header("authorization", "Bearer …");
///
/// async fn no_curl(call: ToolCall) -> Decision {
///     match call.tool_input["command"].as_str() {
///         Some(command) if command.contains("curl") => Decision::deny("curl is not for agents"),
///         _ => Decision::allow(),
///     }
/// }
/// let function = no_curl.into_tool_call_check();
/// ```
#[derive(Clone, Default)]
pub struct ToolCallCheck(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    Url(UrlCheck),
    Function(Arc<dyn Judge>),
}

impl ToolCallCheck {
    /// No check: every tool call is recorded and allowed. On an attack it switches the suite's check off.
    pub fn none() -> Self {
        ToolCallCheck(Kind::None)
    }

    /// A service that gets the agent's hook payload unchanged, and whose answer goes to the agent unchanged.
    pub fn url(url: impl Into<String>) -> UrlCheck {
        UrlCheck::new(url)
    }

    /// Whether nobody is to be asked.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.0, Kind::None)
    }

    /// What has to be taken out of everything that is stored or said to an agent: the values of its headers, and its
    /// address's query.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match &self.0 {
            Kind::Url(check) => check.secrets(),
            Kind::None | Kind::Function(_) => Vec::new(),
        }
    }

    /// Checks it, and makes it ready to be asked.
    pub(crate) fn open(&self, client: &Client) -> Result<Guard> {
        let judge: Option<Arc<dyn Judge>> = match &self.0 {
            Kind::None => None,
            Kind::Url(check) => Some(Arc::new(check.open(client)?)),
            Kind::Function(function) => Some(Arc::clone(function)),
        };
        Ok(Guard { judge, patience: PATIENCE })
    }
}

impl fmt::Debug for ToolCallCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::None => f.write_str("none"),
            Kind::Url(check) => check.fmt(f),
            Kind::Function(_) => f.write_str("(function)"),
        }
    }
}

/// Says what is to become of a tool call.
#[async_trait]
trait Judge: Send + Sync {
    /// The answer for the agent, in the form of its hook.
    async fn judge(&self, run: &str, payload: &Bytes, call: ToolCall) -> Result<Bytes>;

    /// Where it is, for errors.
    fn place(&self) -> Option<String>;
}

/// A check that is ready to be asked, by several tool calls at once.
#[derive(Clone)]
pub(crate) struct Guard {
    judge: Option<Arc<dyn Judge>>,
    patience: Duration,
}

/// What became of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruling {
    /// What the agent's hook is told, with status 200 and as JSON.
    pub(crate) answer: Bytes,
    /// What the agent will do with it.
    pub(crate) decision: RecordedDecision,
    /// Why, in the guard's words.
    pub(crate) reason: Option<String>,
    /// The arguments that the guard put in place of the agent's.
    pub(crate) updated_input: Option<Value>,
    /// Whether the answer ends the turn, whatever becomes of the call.
    pub(crate) ends_turn: bool,
    /// What the answer may have meant and the agent does not hear.
    pub(crate) unheard: Option<String>,
    /// Whether a guard was asked.
    pub(crate) checked: bool,
    /// Why it was denied without the guard's word.
    pub(crate) error: Option<Error>,
    /// How long it took.
    pub(crate) latency: Duration,
}

impl Guard {
    /// Rules on a hook call. Hooks of other kinds than a tool call get no opinion, and no guard is asked.
    pub(crate) async fn ask(&self, run: &str, payload: &[u8]) -> Ruling {
        let begun = Instant::now();
        let ruled = match parse(payload) {
            Err(error) => Err(error),
            Ok(HookEvent::PreToolUse(call)) => self.judge(run, payload, *call).await,
            Ok(HookEvent::UserPromptSubmit { .. } | HookEvent::Ran { .. } | HookEvent::Other { .. }) => {
                Ok((Bytes::from_static(b"{}"), Verdict::default(), false))
            }
        };
        let latency = begun.elapsed();
        match ruled {
            Ok((answer, verdict, checked)) => Ruling {
                answer,
                decision: verdict.decision,
                reason: verdict.reason,
                updated_input: verdict.updated_input,
                ends_turn: verdict.ends_turn,
                unheard: verdict.unheard,
                checked,
                error: None,
                latency,
            },
            Err(error) => Ruling::denial(timed(error, latency), latency),
        }
    }

    async fn judge(&self, run: &str, payload: &[u8], call: ToolCall) -> Result<(Bytes, Verdict, bool)> {
        let Some(judge) = &self.judge else {
            let decision = Decision::allow();
            return Ok((decision.answer(), Verdict { decision: RecordedDecision::Allow, ..Verdict::default() }, false));
        };
        let payload = Bytes::copy_from_slice(payload);
        let answer = timeout(self.patience, judge.judge(run, &payload, call)).await.unwrap_or_else(|_| {
            let detail = format!("the guard did not answer within {:?}", self.patience);
            Err(Error::new(By::ToolCallCheck, "timeout", detail)
                .with_call(Call { url: judge.place(), ..Call::default() }))
        })?;
        let verdict = Verdict::read(&answer).map_err(|why| {
            let detail = format!("the guard's answer is of no use: {why}");
            let call = Call { url: judge.place(), ..Call::default() };
            Error::new(By::ToolCallCheck, "invalid_response", detail).with_call(call)
        })?;
        Ok((answer, verdict, true))
    }

    /// The same guard, which has less or more time.
    #[cfg(test)]
    fn with_patience(self, patience: Duration) -> Self {
        Guard { patience, ..self }
    }
}

impl Ruling {
    /// The call is denied, without the guard's word.
    pub(crate) fn denial(error: Error, latency: Duration) -> Self {
        let reason = format!("redroom denied this tool call: {} ({})", told(&error), error.code());
        Ruling {
            answer: Decision::deny(&reason).answer(),
            decision: RecordedDecision::Deny,
            reason: Some(reason),
            updated_input: None,
            ends_turn: false,
            unheard: None,
            checked: error.by() == By::ToolCallCheck,
            error: Some(error),
            latency,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.judge.is_some() { "Guard" } else { "Guard(none)" })
    }
}

fn parse(payload: &[u8]) -> Result<HookEvent> {
    if payload.len() > HOOK_PAYLOAD_LIMIT {
        let detail = format!("a hook payload was larger than {HOOK_PAYLOAD_LIMIT} bytes");
        return Err(Error::new(By::Sidecar, "payload_too_large", detail));
    }
    HookEvent::parse(payload)
        .map_err(|why| Error::new(By::Sidecar, "invalid_payload", format!("a hook payload is not valid: {why}")))
}

/// What the agent, and so its model, may know of a failure: nothing of where the guard is.
fn told(error: &Error) -> &'static str {
    match (error.by(), error.code()) {
        (By::ToolCallCheck, "timeout") => "its check did not answer in time",
        (By::ToolCallCheck, _) => "its check gave no usable answer",
        (_, "payload_too_large") => "it is too large to be checked",
        (_, FLOOD) => "too many calls were reported that no model asked for",
        _ => "it cannot be understood",
    }
}

/// The code of calls that are not asked about any more, because too many were made up.
pub(crate) const FLOOD: &str = "too_many_forged_calls";

fn timed(error: Error, latency: Duration) -> Error {
    let Some(call) = error.call() else { return error };
    let call = Call { duration_ms: u64::try_from(latency.as_millis()).ok(), ..call.clone() };
    error.with_call(call)
}
