//! Reads what Claude Code prints in a turn: one JSON object a line, and warnings beside.
//!
//! All of it is a claim: whatever runs as the agent's user can write to the same streams. It is bounded here, and judged by
//! what it says of its end; nothing of it is evidence.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::settings;
use crate::agent::{HOOK_NOT_LOADED, MODEL_ERROR, ParsedTurn, TURN_FAILED, TurnLimit, TurnReader};
use crate::error::{By, Call, Error};
use crate::excerpt::Excerpt;

/// The longest line that is read, in bytes.
const LINE_LIMIT: usize = 16 * 1024 * 1024;
/// The largest event that is kept. Parsed, it can weigh many times as much.
const EVENT_LIMIT: usize = 1024 * 1024;
/// The most events that are kept, and what they may weigh together.
const EVENTS_LIMIT: usize = 5_000;
const EVENTS_WEIGHT: usize = 8 * 1024 * 1024;
/// The most that is kept of a final answer.
const ANSWER_LIMIT: usize = 1024 * 1024;
/// The largest token count that is kept.
const USAGE_LIMIT: usize = 64 * 1024;

/// Reads one turn.
pub(super) struct Reader {
    line: Vec<u8>,
    /// The line under way is too long: it is passed over to its end.
    skipping: bool,
    parsed: ParsedTurn,
    weight: usize,
    spoke: bool,
    last: Option<Ending>,
    words: Excerpt,
}

/// What the last `result` line says.
struct Ending {
    is_error: bool,
    terminal_reason: Option<String>,
    model_status: Option<String>,
    errors: Vec<String>,
    text: String,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            line: Vec::new(),
            skipping: false,
            parsed: ParsedTurn::default(),
            weight: 0,
            spoke: false,
            last: None,
            // Warnings about settings come first, a crash comes last.
            words: Excerpt::new(16 * 1024, 4 * 1024),
        }
    }
}

impl TurnReader for Reader {
    fn out(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            if !self.skipping {
                if self.line.len() + piece.len() <= LINE_LIMIT {
                    self.line.extend_from_slice(piece);
                } else {
                    self.line = Vec::new();
                    self.skipping = true;
                    self.parsed.events_dropped += 1;
                }
            }
            if ends {
                self.end_line();
            }
        }
    }

    fn err(&mut self, chunk: &[u8]) {
        self.words.push(chunk);
    }

    fn end(mut self: Box<Self>, exit_code: Option<i64>) -> ParsedTurn {
        self.end_line();
        let words = self.words.text();
        let mut parsed = self.parsed;
        if let Some(ending) = &self.last {
            parsed.is_error = ending.is_error;
            parsed.limit_hit = ending.limit();
            parsed.final_text = Excerpt::of(&ending.text, ANSWER_LIMIT);
        }
        let error = if hooks_are_off(&words) {
            Some(hook_not_loaded(&words))
        } else {
            match &self.last {
                Some(ending) => ending.error(exit_code),
                None if !self.spoke && matches!(exit_code, Some(126 | 127 | 255)) => {
                    Some(crate::agent::not_startable("Claude Code", exit_code, &words))
                }
                None => Some(no_result(exit_code, &words)),
            }
        };
        let call = Call { command: Some("claude".to_owned()), exit_code, ..Call::default() };
        parsed.error = error.map(|error| error.with_call(call));
        parsed
    }
}

/// What is read of every line.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
}

/// What is read of a `result` line. `subtype` is not: it says `success` of a model that could not be reached.
#[derive(Deserialize)]
struct ResultLine {
    is_error: bool,
    terminal_reason: Option<String>,
    stop_reason: Option<String>,
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    api_error_status: Option<Value>,
    total_cost_usd: Option<f64>,
    usage: Option<Box<RawValue>>,
}

/// The words of a line in which the model speaks; tool calls are told by the hook.
pub(super) fn said(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        content: Vec<Value>,
    }
    let kind: Kind<'_> = serde_json::from_str(line).ok()?;
    if kind.kind != "assistant" {
        return None;
    }
    let spoken: Line = serde_json::from_str(line).ok()?;
    let words: Vec<&str> = spoken.message.content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    (!words.is_empty()).then(|| words.join("\n"))
}

impl Reader {
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.skipping) || line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice::<Kind<'_>>(&line) {
            Ok(kind) => {
                self.spoke = true;
                if kind.kind == "result" {
                    self.read_result(&line);
                }
                self.keep(&line);
            }
            Err(_) => self.parsed.lines_unread += 1,
        }
        // One long line must not hold its memory for the rest of the turn.
        if line.capacity() <= EVENT_LIMIT {
            self.line = line;
            self.line.clear();
        }
    }

    /// A turn can print several: the last one counts, and its cost is that of all.
    fn read_result(&mut self, line: &[u8]) {
        // What can be no event says nothing: a reader of some fields passes over what stands in the others.
        let is_event = line.len() > EVENT_LIMIT || serde_json::from_slice::<Value>(line).is_ok();
        let Some(read) = serde_json::from_slice::<ResultLine>(line).ok().filter(|_| is_event) else {
            self.parsed.lines_unread += 1;
            return;
        };
        self.parsed.session_cost_usd = read.total_cost_usd.or(self.parsed.session_cost_usd);
        self.parsed.usage = read
            .usage
            .filter(|usage| usage.get().len() <= USAGE_LIMIT)
            .and_then(|usage| serde_json::from_str(usage.get()).ok());
        self.parsed.stop_reason = read.terminal_reason.clone().or(read.stop_reason);
        self.last = Some(Ending {
            is_error: read.is_error,
            terminal_reason: read.terminal_reason,
            model_status: read.api_error_status.filter(|status| !status.is_null()).map(|status| status.to_string()),
            errors: read.errors,
            text: read.result.unwrap_or_default(),
        });
    }

    fn keep(&mut self, line: &[u8]) {
        let has_room = self.parsed.events.len() < EVENTS_LIMIT && self.weight + line.len() <= EVENTS_WEIGHT;
        if line.len() <= EVENT_LIMIT
            && has_room
            && let Ok(event) = serde_json::from_slice(line)
        {
            self.weight += line.len();
            self.parsed.events.push(event);
            return;
        }
        self.parsed.events_dropped += 1;
    }
}

impl Ending {
    fn limit(&self) -> Option<TurnLimit> {
        match self.terminal_reason.as_deref() {
            Some("max_turns") => Some(TurnLimit::MaxTurns),
            Some("budget_exhausted") => Some(TurnLimit::MaxBudget),
            _ => None,
        }
    }

    fn error(&self, exit_code: Option<i64>) -> Option<Error> {
        let says = self.says();
        let mut by = By::Agent;
        let (code, detail) = match self.terminal_reason.as_deref() {
            Some("max_turns" | "budget_exhausted") => (
                "turn_limit_reached",
                format!("{says}; raise `max_turns` or `max_budget_usd` if the attack needs more"),
            ),
            Some("api_error" | "model_error") => {
                let status = self.model_status.as_ref().map(|status| format!(" (status {status})")).unwrap_or_default();
                by = By::ModelProxy;
                (MODEL_ERROR, format!("the model gave no usable answer{status}: {says}"))
            }
            Some("hook_stopped" | "stop_hook_prevented") => {
                ("hook_stopped", "the tool hook's answer ended the turn (`continue: false`)".to_owned())
            }
            Some("tool_deferred" | "tool_deferred_unavailable") => {
                ("tool_deferred", "the tool hook put a tool call off (`defer`), which ended the turn".to_owned())
            }
            Some("completed") if !self.is_error && exit_code == Some(0) => return None,
            Some("completed") if !self.is_error => {
                (TURN_FAILED, format!("{} although it reported success", ended(exit_code)))
            }
            // A prompt that its hook turned away never becomes a turn: no reason, no error, exit code 0.
            None if !self.is_error && self.text.contains("blocked by hook") => {
                ("hook_stopped", format!("the message was not taken: {says}"))
            }
            // A command of the agent's own, such as `/context`, is answered without a turn.
            None if !self.is_error && exit_code == Some(0) => return None,
            reason => (TURN_FAILED, format!("Claude Code stopped ({}): {says}", reason.unwrap_or("no reason given"))),
        };
        Some(Error::new(by, code, detail))
    }

    /// What it says went wrong, in short.
    fn says(&self) -> String {
        let said = if self.errors.is_empty() { self.text.clone() } else { self.errors.join("; ") };
        match said.trim() {
            "" => "it says nothing more".to_owned(),
            said => Excerpt::of(said, 2_000),
        }
    }
}

/// Whether it complains about its managed settings. One entry that it does not understand can switch off the tool hook
/// and leave the other on, so that the announcement of turns alone does not tell.
fn hooks_are_off(words: &str) -> bool {
    words.contains(settings::PATH) || words.contains("Managed settings contain invalid entries")
}

fn hook_not_loaded(words: &str) -> Error {
    let detail = format!(
        "Claude Code does not accept {}, so tools can run that no hook saw; use a version that redroom knows: {}",
        settings::PATH,
        Excerpt::of(words.trim(), 2_000)
    );
    Error::new(By::Agent, HOOK_NOT_LOADED, detail)
}

fn no_result(exit_code: Option<i64>, words: &str) -> Error {
    let mut detail = format!("{} without a result", ended(exit_code));
    if !words.trim().is_empty() {
        detail.push_str(": ");
        detail.push_str(&Excerpt::of(words.trim(), 2_000));
    }
    Error::new(By::Agent, TURN_FAILED, detail)
}

/// How it ended, in words.
fn ended(exit_code: Option<i64>) -> String {
    match exit_code {
        None => "Claude Code was gone with its sandbox".to_owned(),
        Some(130) => "Claude Code was interrupted (SIGINT)".to_owned(),
        Some(137) => "Claude Code was killed (SIGKILL: by a process of the sandbox, or for memory)".to_owned(),
        Some(143) => "Claude Code was told to end (SIGTERM)".to_owned(),
        Some(code) => format!("Claude Code ended with exit code {code}"),
    }
}
