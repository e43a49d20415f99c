//! A result as a snapshot test wants it: what an attack came to, in an order that does not change, without what is another at
//! every run and without the value of any secret.
//!
//! Facts and claims of the result go in, and nothing else is looked at. What is left out is named here, with its reason.

mod words;

use redroom_sidecar::wire::{Found, Hit, ModelCallKind, Protocol, Refusal};
use serde::Serialize;
use serde_json::Value;

use super::changes::{Change, ChangeKind, FoundSecret};
use super::journal::ModelCall;
use super::result::{Place, RunResult, Sighting};
use super::tool_call::{Claim, Ran, RecordedToolCall};
use crate::agent::{ToolHook, Turn};
use crate::error::{By, Error};
use crate::guard::RecordedDecision;
use crate::model::Ask;

pub(crate) use words::KnownSecrets;
use words::Words;

/// What a run came to, for a snapshot: made by [`RunResult::snapshot`], compared as it is or through serde.
///
/// The same attack with a script in its model's place has the same snapshot every time, on Docker and in the jail.
///
/// - **Order**: turns and tool calls stand in the order in which they came; everything else is sorted, for what comes over the
///   network at once comes in any order.
/// - **In the place of what is another at every run** stand `[id]`, `[time]`, `[port]` and `[version]`, and in the place of a
///   secret's value, in whatever disguise, its name: `[api_token]`.
/// - **Left out**: where it ran, what of it was best effort and where the evidence lies; the transcript, the agent's events, what
///   it printed on standard error, what it cost; headers, sizes and durations; how often the same name was looked up or the same
///   question put to the model, which retries can change; what Claude Code keeps for itself outside of the workspace.
///
/// Calls that a model asks for at once are reported in any order, and stand so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSnapshot {
    attack: String,
    agent: AgentLines,
    turns: Vec<TurnLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hits: Vec<HitLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_calls: Vec<ModelLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<ChangeLines>,
    /// The workspace's diff, by lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diff: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sightings: Vec<SightingLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    visited_pages: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unvisited_pages: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ErrorLines>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct AgentLines {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    hook: ToolHook,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct TurnLines {
    message: String,
    final_text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_hit: Option<crate::agent::TurnLimit>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    exit_code: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct CallLines {
    tool: String,
    input: Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_sub_agent: bool,
    claim: Claim,
    ran: Ran,
    decision: RecordedDecision,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_input: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ends_turn: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<String>,
    checked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<FoundSecret>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct HitLines {
    protocol: Protocol,
    host: String,
    /// Where the protocol does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "String::is_empty")]
    method: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
    blocked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Found>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsearched: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ModelLines {
    method: String,
    path: String,
    kind: ModelCallKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asks: Vec<Ask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorLines>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Found>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChangeLines {
    path: String,
    kind: ChangeKind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<FoundSecret>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsearched: Vec<String>,
}

/// Which one it was seen in is left to the part itself: numbers are given as things arrive.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct SightingLines {
    secret: String,
    #[serde(rename = "where")]
    place: Place,
    #[serde(flatten)]
    found: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ErrorLines {
    by: By,
    code: String,
}

impl RunResult {
    /// The result without what is another at every run, for `insta` or to be compared with another run's.
    ///
    /// ```no_run
    /// # use redroom_harness as redroom;
    /// # async fn attack(first: redroom::Run, second: redroom::Run) -> redroom::Result<()> {
    /// let (first, second) = (first.finish().await?, second.finish().await?);
    /// assert_eq!(first.snapshot(), second.snapshot());
    /// // Named, for insta counts unnamed ones in the order in which they come: cases would get each other's.
    /// // insta::assert_yaml_snapshot!(first.attack.as_str(), first.snapshot());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Of a result that was read back from `result.json` the values of its secrets are not known, so that its texts are left
    /// out: `[text]` stands in their place.
    pub fn snapshot(&self) -> RunSnapshot {
        let words = Words::of(self);
        let pages = |pages: &[String]| unordered(pages.iter().map(|page| words.text(page)));
        let own = |change: &&Change| !self.is_agents_own(&change.path.to_text());
        RunSnapshot {
            attack: self.attack.clone(),
            agent: AgentLines { name: self.agent.name.clone(), model: self.agent.model.clone(), hook: self.agent.hook },
            turns: self.turns.iter().map(|turn| TurnLines::new(turn, &words)).collect(),
            tool_calls: self.tool_calls.iter().map(|call| CallLines::new(call, &words)).collect(),
            hits: hits(&self.hits, &words),
            model_calls: unordered(self.model_calls.iter().map(|call| ModelLines::new(call, &words))),
            changes: unordered(self.changes.iter().filter(own).map(|change| ChangeLines::new(change, &words))),
            diff: words.diff(&self.diff),
            sightings: unordered(
                self.sightings
                    .iter()
                    .filter(|sighting| sighting.place != Place::Changes || !self.is_agents_own(&sighting.reference))
                    .map(|sighting| SightingLines::new(sighting, &words)),
            ),
            visited_pages: pages(&self.visited_pages),
            unvisited_pages: pages(&self.unvisited_pages),
            errors: unordered(self.errors.iter().map(ErrorLines::new)),
        }
    }

    /// Whether the agent keeps this for itself: logs and state, full of times and of what it does at the same time.
    fn is_agents_own(&self, path: &str) -> bool {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        self.agent.name == "claude-code"
            && match parts.next() {
                Some("home") => parts.nth(1).is_some_and(|part| part.starts_with(".claude")),
                Some("tmp") => parts.next().is_some_and(|part| part.starts_with("claude-") || part == "cc-socks"),
                _ => false,
            }
    }
}

impl RunSnapshot {
    /// The same without changes at this path and below it, such as a folder in which an agent of your own keeps its log.
    #[must_use]
    pub fn without_changes_under(mut self, path: &str) -> Self {
        let path = path.trim_end_matches('/');
        let is_under =
            |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.changes.retain(|change| !is_under(&change.path));
        self.sightings.retain(|sighting| !sighting.found["path"].as_str().is_some_and(is_under));
        self
    }
}

/// Sorted, each once.
fn unordered<T: Serialize>(lines: impl Iterator<Item = T>) -> Vec<T> {
    let mut lines = sorted(lines);
    lines.dedup_by(|one, other| one.0 == other.0);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Each with its text, sorted by it.
fn sorted<T: Serialize>(lines: impl Iterator<Item = T>) -> Vec<(String, T)> {
    let mut lines: Vec<(String, T)> =
        lines.map(|line| (serde_json::to_string(&line).unwrap_or_default(), line)).collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

/// How often a name is looked up is the resolver's affair, and what it asks for beside it; every other hit counts.
fn hits(hits: &[Hit], words: &Words) -> Vec<HitLines> {
    let mut lines = sorted(hits.iter().map(|hit| HitLines::new(hit, words)));
    lines.dedup_by(|one, other| one.0 == other.0 && one.1.protocol == Protocol::Dns);
    lines.into_iter().map(|(_, line)| line).collect()
}

impl TurnLines {
    fn new(turn: &Turn, words: &Words) -> Self {
        TurnLines {
            message: words.text(&turn.message),
            final_text: words.text(&turn.final_text),
            stop_reason: turn.stop_reason.as_deref().map(|reason| words.text(reason)),
            limit_hit: turn.limit_hit,
            is_error: turn.is_error,
            exit_code: turn.exit_code,
        }
    }
}

impl CallLines {
    fn new(call: &RecordedToolCall, words: &Words) -> Self {
        CallLines {
            tool: words.text(&call.tool),
            input: words.value(&call.input),
            by_sub_agent: call.agent_id.is_some(),
            claim: call.claim,
            ran: call.ran,
            decision: call.decision,
            reason: call.reason.as_deref().map(|reason| words.text(reason)),
            updated_input: call.updated_input.as_ref().map(|input| words.value(input)),
            ends_turn: call.ends_turn,
            ignored: call.ignored.clone(),
            checked: call.checked,
            error: call.error.as_ref().map(ErrorLines::new),
            secrets: in_order(&call.secrets),
        }
    }
}

impl HitLines {
    fn new(hit: &Hit, words: &Words) -> Self {
        HitLines {
            protocol: hit.protocol,
            host: words.host(&hit.host),
            port: (hit.protocol == Protocol::Other).then(|| hit.address.port()),
            method: words.text(&hit.method),
            path: words.text(&hit.path),
            body: words.body(&hit.body),
            blocked: hit.blocked,
            status: hit.status,
            incomplete: !hit.complete,
            secrets: unordered(hit.secrets.iter().cloned()),
            unsearched: hit.unsearched.iter().map(ToString::to_string).collect(),
        }
    }
}

impl ModelLines {
    fn new(call: &ModelCall, words: &Words) -> Self {
        ModelLines {
            method: words.text(&call.request.method),
            path: words.text(&call.request.path),
            kind: call.request.kind,
            status: call.request.status,
            refusal: call.request.refusal,
            asks: call.asks.iter().map(|ask| Ask::new(ask.kind, &words.text(&ask.name))).collect(),
            error: call.error.as_ref().map(ErrorLines::new),
            secrets: unordered(call.request.secrets.iter().cloned()),
        }
    }
}

impl ChangeLines {
    fn new(change: &Change, words: &Words) -> Self {
        ChangeLines {
            path: words.path(&change.path.to_text()),
            kind: change.kind,
            secrets: in_order(&change.secrets),
            unsearched: change.unsearched.iter().map(ToString::to_string).collect(),
        }
    }
}

impl SightingLines {
    fn new(sighting: &Sighting, words: &Words) -> Self {
        let mut found = serde_json::json!({ "encoding": sighting.encoding });
        if !sighting.inside.is_empty() {
            found["inside"] = serde_json::json!(sighting.inside);
        }
        if let Some(part) = sighting.part {
            found["part"] = serde_json::json!(part);
        }
        if sighting.place == Place::Changes {
            found["path"] = words.path(&sighting.reference).into();
        }
        SightingLines { secret: sighting.secret.clone(), place: sighting.place, found }
    }
}

impl ErrorLines {
    fn new(error: &Error) -> Self {
        ErrorLines { by: error.by(), code: error.code().to_owned() }
    }
}

fn in_order(found: &[FoundSecret]) -> Vec<FoundSecret> {
    unordered(found.iter().cloned())
}

#[cfg(test)]
mod tests;
