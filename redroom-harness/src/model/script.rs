//! A script: the model's answers, written down before.
//!
//! Which step is due is read off the conversation in the request, never counted along: an agent repeats requests, asks
//! beside the conversation, and runs several conversations at once, and none of this may shift the script.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::answer::{Answer, ToolUse};
use super::conversation::{Conversation, Message, Role};
use super::function::{Play, Played, call_position};
use crate::error::{Error, Result};

/// What is said where the script says nothing.
const DONE: &str = "Done.";

/// The model's answers, step by step, in the agent's own wire format: an attack without a model, a key or chance.
///
/// [`say`](Script::say) ends a turn; the steps after it serve the next message. A script that ends with a call says
/// `Done.` afterwards. What is asked beyond that gets the same answer, and an error `script_ended` in the result.
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::{Answer, Script, json};
///
/// let script = Script::new()
///     .call("WebFetch", json!({ "url": "https://docs.redroom.test/setup", "prompt": "How?" }))
///     .respond(|conversation| {
///         let page = conversation.last_result();
///         Answer::call("Bash", json!({ "command": format!("echo {}", page.len()) }))
///     })
///     .say("Set up.");
/// ```
#[derive(Clone, Default)]
pub struct Script {
    steps: Vec<Step>,
    tracks: Vec<(String, Script)>,
    summary: Summary,
}

#[derive(Clone)]
enum Step {
    Fixed(Answer),
    Asked { respond: Respond, ends_turn: bool },
}

type Respond = Arc<dyn Fn(&Conversation) -> Answer + Send + Sync>;

/// What requests beside the conversation are answered with.
#[derive(Clone, Default)]
enum Summary {
    /// The page that is to be summed up, word for word.
    #[default]
    Page,
    Text(String),
    Asked(Arc<dyn Fn(&Conversation) -> String + Send + Sync>),
}

impl Script {
    /// A script without steps: says `Done.` to everything.
    pub fn new() -> Self {
        Script::default()
    }

    /// Calls one tool.
    #[must_use]
    pub fn call(self, name: impl Into<String>, input: Value) -> Self {
        self.step(Answer::call(name, input))
    }

    /// Calls several tools at once.
    #[must_use]
    pub fn calls<N: Into<String>>(self, calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let calls = calls.into_iter().map(|(name, input)| ToolUse { name: name.into(), input }).collect();
        self.step(Answer { text: String::new(), calls })
    }

    /// Says something and ends the turn.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.step(Answer::say(text))
    }

    /// Says something that depends on the last tool result, and ends the turn.
    #[must_use]
    pub fn say_result(mut self, say: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let respond: Respond = Arc::new(move |conversation| Answer::say(say(conversation.last_result())));
        self.steps.push(Step::Asked { respond, ends_turn: true });
        self
    }

    /// Gives any answer: text, calls, or text and calls.
    #[must_use]
    pub fn step(mut self, answer: impl Into<Answer>) -> Self {
        self.steps.push(Step::Fixed(answer.into()));
        self
    }

    /// Gives an answer that depends on the conversation so far: how a script follows what a planted page told it to do.
    /// May be asked more than once for the same step, when the agent repeats its request.
    #[must_use]
    pub fn respond<A: Into<Answer>>(mut self, respond: impl Fn(&Conversation) -> A + Send + Sync + 'static) -> Self {
        let respond: Respond = Arc::new(move |conversation| respond(conversation).into());
        self.steps.push(Step::Asked { respond, ends_turn: false });
        self
    }

    /// Plays another script to the sub-agents whose prompt contains `marker`; the first track that fits is taken. A
    /// sub-agent without a track is told `Done.`, with an error `no_script_track` in the result.
    #[must_use]
    pub fn track(mut self, marker: impl Into<String>, script: Script) -> Self {
        self.tracks.push((marker.into(), script));
        self
    }

    /// What every request beside the conversation is answered with. Without it the summary of a fetched page is the page,
    /// word for word, so that the scripted model reads what was planted; other requests of the kind get `Done.`.
    #[must_use]
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summary = Summary::Text(text.into());
        self
    }

    /// Like [`summary`](Script::summary), computed; [`Conversation::fetched_page`] is the page.
    #[must_use]
    pub fn summarize(mut self, summarize: impl Fn(&Conversation) -> String + Send + Sync + 'static) -> Self {
        self.summary = Summary::Asked(Arc::new(summarize));
        self
    }

    fn aside(&self, conversation: &Conversation) -> Answer {
        Answer::say(match &self.summary {
            Summary::Page => conversation.fetched_page().unwrap_or(DONE).to_owned(),
            Summary::Text(text) => text.clone(),
            Summary::Asked(summarize) => summarize(conversation),
        })
    }

    /// The script for this conversation and the message that it begins with; `None` for a sub-agent that has none.
    fn part(&self, conversation: &Conversation) -> Option<(&Script, usize)> {
        let main_agent_for_certain = conversation.names_session && conversation.sub_agent.is_none();
        if main_agent_for_certain {
            return Some((self, 0));
        }
        // A sub-agent may inherit its parent's conversation: its own begins where its prompt stands. Without a word on who
        // is asking, only the first message can tell.
        let candidates = if conversation.sub_agent.is_some() { conversation.messages.len() } else { 1 };
        let track = self.tracks.iter().find_map(|(marker, script)| {
            let start = conversation.messages.iter().take(candidates).position(|message| {
                message.role == Role::User && message.texts().any(|text| text.contains(marker.as_str()))
            })?;
            Some((script, start))
        });
        track.or_else(|| conversation.sub_agent.is_none().then_some((self, 0)))
    }

    /// The number of the step that is due after these messages.
    fn position(&self, messages: &[Message]) -> usize {
        let mut due = 0;
        let mut turn_is_open = false;
        for message in messages {
            match message.role {
                Role::User => turn_is_open = true,
                Role::Assistant if message.is_stand_in() => {
                    if std::mem::take(&mut turn_is_open) {
                        due = self.after_turn(due);
                    }
                }
                Role::Assistant => {
                    turn_is_open = false;
                    // An answer may come back in several messages, one for each of its calls.
                    due = match message.calls().filter_map(call_position).max() {
                        Some(step) => due.max(step + 1),
                        None => due + 1,
                    };
                }
            }
        }
        due
    }

    /// The first step of the turn after the one that step `due` belongs to.
    fn after_turn(&self, due: usize) -> usize {
        let rest = self.steps.get(due..).unwrap_or_default();
        rest.iter().position(Step::ends_turn).map_or(self.steps.len(), |last| due + last + 1)
    }

    fn beyond(&self, due: usize) -> Option<Error> {
        let implied = due == self.steps.len() && self.steps.last().is_none_or(|step| !step.ends_turn());
        (!implied).then(|| {
            Error::redroom(
                "script_ended",
                format!(
                    "the agent asked its model for answer {}, the script has {}: it was told \"{DONE}\"; add steps, or send \
                     fewer messages",
                    due + 1,
                    self.steps.len()
                ),
            )
        })
    }
}

impl Step {
    fn ends_turn(&self) -> bool {
        match self {
            Step::Fixed(answer) => answer.ends_turn(),
            Step::Asked { ends_turn, .. } => *ends_turn,
        }
    }
}

#[async_trait]
impl Play for Script {
    async fn play(&self, conversation: Conversation) -> Result<Played> {
        if conversation.is_aside() {
            return Ok(Played { answer: self.aside(&conversation), position: 0, note: None });
        }
        let Some((script, start)) = self.part(&conversation) else {
            let note = Error::redroom(
                "no_script_track",
                format!(
                    "a sub-agent asked its model and no track of the script fits: it was told \"{DONE}\"; add .track(…)"
                ),
            );
            return Ok(Played { answer: Answer::say(DONE), position: conversation.position(), note: Some(note) });
        };
        let position = script.position(&conversation.messages[start..]);
        let (answer, note) = match script.steps.get(position) {
            Some(Step::Fixed(answer)) => (answer.clone(), None),
            Some(Step::Asked { respond, .. }) => (respond(&conversation), None),
            None => (Answer::say(DONE), script.beyond(position)),
        };
        Ok(Played { answer, position, note })
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("steps", &self.steps).field("tracks", &self.tracks).finish_non_exhaustive()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Fixed(answer) => answer.fmt(f),
            Step::Asked { .. } => f.write_str("(computed)"),
        }
    }
}
