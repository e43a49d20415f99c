//! One turn: a message to the agent, its output read as it comes, its end judged by what it says of itself and by exit code.

use std::sync::Arc;
use std::time::Duration;

use super::output::TurnOutput;
use super::recorder::hook_not_loaded;
use super::{Live, STORAGE_EXCEEDED, seconds, storage_exceeded, turn_in_progress};
use crate::agent::{MODEL_ERROR, ParsedTurn, Turn, TurnInput, not_startable};
use crate::backend::{Ended, Exec, ExecEnd, Fate, WORKSPACE};
use crate::error::{By, Call, Error, Result};
use crate::limits::TURN_OUTPUT;

/// A message may not weigh more than this, in bytes.
const MESSAGE_LIMIT: usize = 16 * 1024 * 1024;

impl Live {
    pub(super) async fn turn(self: &Arc<Self>, message: &str) -> Result<Turn> {
        self.check_live()?;
        let _busy = self.busy.try_lock().map_err(|_| turn_in_progress(&self.name))?;
        if message.len() > MESSAGE_LIMIT {
            return Err(Error::redroom(
                "message_too_large",
                format!("a message of {} bytes; {MESSAGE_LIMIT} is the most: plant a file instead", message.len()),
            ));
        }
        let index = u32::try_from(self.turns().len()).unwrap_or(u32::MAX);
        let command = self.agent.turn(&TurnInput { session: &self.id, index, message });
        let exec = Exec {
            argv: command.argv,
            env: command.env,
            stdin: command.stdin,
            cwd: WORKSPACE.to_owned(),
            timeout: self.limits.turn_timeout,
        };
        self.recorder.expect_announcement();
        let watched = self.journal.watched();
        if let Some(watched) = watched {
            watched.turn_began(index, message);
        }
        let given_up = GivenUp(Some((&**self, index, message)));
        let mut output = TurnOutput::new(
            self.journal.store(),
            self.journal.redactor(),
            index,
            self.agent.reader(),
            watched.and_then(|watched| watched.ear(self.agent.clone())),
            self.limits.turn_output,
        );
        let ended = tokio::select! {
            end = self.sandbox.exec(exec, &mut output) => end,
            why = self.stopped() => Err(why),
        };
        given_up.never_mind();
        let ended = self.unless_it_hung(ended);
        let exit_code = ended.as_ref().ok().and_then(|end| end.exit_code);
        let (reader, stderr, engine) = output.into_parts();
        let parsed = reader.end(exit_code).bounded();
        let failure = match &ended {
            Ok(end) => self.failure(end, &parsed, &engine).await,
            Err(error) => Some(error.clone()),
        };
        let duration = ended.as_ref().map_or(Duration::ZERO, |end| end.duration);
        // The agent counts the whole session; a turn is what came on top of the turns before.
        let before: f64 = self.turns().iter().filter_map(|turn| turn.cost_usd).sum();
        let cost_usd = parsed.session_cost_usd.map(|session| (session - before).max(0.0));
        let turn = Turn {
            index,
            message: message.to_owned(),
            final_text: parsed.final_text,
            events: parsed.events,
            events_dropped: parsed.events_dropped,
            lines_unread: parsed.lines_unread,
            cost_usd,
            limit_hit: parsed.limit_hit,
            is_error: parsed.is_error,
            usage: parsed.usage,
            stop_reason: parsed.stop_reason,
            duration,
            exit_code,
            stderr,
        };
        let turn = self.record(turn);
        if let Some(watched) = watched {
            watched.turn_ended(&turn, failure.is_some());
        }
        // What kept the model away says more than the agent's own words about it; it is recorded already.
        if self.recorder.went_unannounced() {
            return Err(hook_not_loaded());
        }
        let Some(mut error) = failure else { return Ok(turn) };
        if error.code() == MODEL_ERROR
            && let Some(cause) = self.recorder.unanswered()
        {
            error = error.map_detail(|_| format!("the model gave no answer: {cause}"));
        }
        self.note(&error);
        Err(error)
    }

    fn record(&self, turn: Turn) -> Turn {
        let turn = self.journal.redactor().value(turn);
        self.journal.store().append("turns.jsonl", &turn);
        self.turns().push(turn.clone());
        turn
    }

    /// Why the turn counts as failed, if it does.
    async fn failure(&self, end: &ExecEnd, parsed: &ParsedTurn, engine: &str) -> Option<Error> {
        let duration_ms = u64::try_from(end.duration.as_millis()).ok();
        let call = Call { exit_code: end.exit_code, duration_ms, ..Call::default() };
        let by_agent =
            |code: &'static str, detail: String| Some(Error::new(By::Agent, code, detail).with_call(call.clone()));
        match end.ended {
            Ended::Timeout => by_agent(
                "turn_timeout",
                format!(
                    "the turn ran past {} s and was killed; raise limits.turn_timeout if it needs longer",
                    seconds(self.limits.turn_timeout)
                ),
            ),
            Ended::OutputLimit => by_agent(
                "turn_output_too_large",
                format!("the turn printed more than {TURN_OUTPUT} bytes and was killed"),
            ),
            Ended::StorageLimit => by_agent(STORAGE_EXCEEDED, storage_exceeded("the turn")),
            Ended::SandboxDied | Ended::Itself => {
                if let Some(error) = self.perished(end).await {
                    return Some(error);
                }
                // The backend's own words: whatever the agent's reader makes of an exit code, this was no turn.
                if matches!(end.exit_code, Some(126 | 127)) && !engine.trim().is_empty() {
                    return Some(not_startable(self.agent.name(), end.exit_code, engine));
                }
                let error = parsed.error.clone()?;
                let error = if engine.trim().is_empty() {
                    error
                } else {
                    error.map_detail(|detail| format!("{detail}; the engine says: {}", engine.trim()))
                };
                Some(if error.call().is_some() { error } else { error.with_call(call.clone()) })
            }
        }
    }

    /// Why a command's end was none of its own doing, whatever it says of itself: the sandbox died, or it was killed for memory.
    pub(super) async fn perished(&self, end: &ExecEnd) -> Option<Error> {
        let (code, detail) = match (end.ended, end.exit_code) {
            (Ended::SandboxDied, _) => {
                let fate = self.sandbox.fate().await;
                let (code, why) = match &fate {
                    Ok(Fate::Dead { memory_exceeded: true, .. }) => {
                        ("out_of_memory", "its memory limit was exceeded; raise limits.memory".to_owned())
                    }
                    Ok(Fate::Dead { detail, .. }) => ("sandbox_died", detail.clone()),
                    Ok(Fate::Alive { .. }) => ("sandbox_died", "it does not answer".to_owned()),
                    Err(error) => ("sandbox_died", error.to_string()),
                };
                (code, format!("the sandbox ended under the agent: {why}"))
            }
            // One that was killed says nothing of why.
            (Ended::Itself, Some(137)) => {
                let for_memory = matches!(
                    self.sandbox.fate().await,
                    Ok(Fate::Alive { memory_exceeded: true } | Fate::Dead { memory_exceeded: true, .. })
                );
                if !for_memory {
                    return None;
                }
                let detail = "the agent was killed because its memory limit was exceeded; raise limits.memory";
                ("out_of_memory", detail.to_owned())
            }
            _ => return None,
        };
        let duration_ms = u64::try_from(end.duration.as_millis()).ok();
        let call = Call { exit_code: end.exit_code, duration_ms, ..Call::default() };
        Some(Error::new(By::Agent, code, detail).with_call(call))
    }
}

/// A turn whose future is dropped has been a turn all the same: it is recorded, and the run proves nothing by it.
struct GivenUp<'a>(Option<(&'a Live, u32, &'a str)>);

impl GivenUp<'_> {
    fn never_mind(mut self) {
        self.0 = None;
    }
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let Some((live, index, message)) = self.0.take() else { return };
        live.record(Turn {
            index,
            message: message.to_owned(),
            final_text: String::new(),
            events: Vec::new(),
            events_dropped: 0,
            lines_unread: 0,
            cost_usd: None,
            limit_hit: None,
            is_error: true,
            usage: None,
            stop_reason: None,
            duration: Duration::ZERO,
            exit_code: None,
            stderr: String::new(),
        });
        live.journal.error(Error::redroom(
            "turn_given_up",
            format!(
                "nobody waited for the end of turn {index}, and its agent was killed; to give a turn less time, set limits.turn_timeout"
            ),
        ));
    }
}
