//! What the agent sent to its model: the conversation so far and the tools on offer, independent of any wire format.

use serde_json::Value;

/// What agents write into a conversation in the model's name after a turn that was cut off.
const STAND_IN: &str = "No response requested.";

/// The conversation that the agent sent to its model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Conversation {
    /// The model that was asked for.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The messages, oldest first. Never empty.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<Tool>,
    /// Which of the agent's sub-agents is asking, where the request says so.
    pub sub_agent: Option<String>,
    /// The request says which session it belongs to, so that a request without a sub-agent is the main agent's for certain.
    pub(crate) names_session: bool,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// What it is made of.
    pub blocks: Vec<Block>,
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The agent, speaking for the user and for tools.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Text.
    Text(String),
    /// The model called a tool.
    ToolUse {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// What a tool gave back.
    ToolResult(ToolResult),
    /// Anything else: pictures, thoughts.
    Other(Value),
}

/// What a tool gave back.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// Id of the call.
    pub call: String,
    /// The tool's name, where the call stands in the conversation.
    pub tool: Option<String>,
    /// Its text.
    pub text: String,
    /// Whether it failed or was denied.
    pub is_error: bool,
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// Run by the model's side, not by the agent.
    pub server_side: bool,
}

impl Conversation {
    /// How many answers the model has given so far: the number of the answer that is asked for now, from 0. What agents
    /// put in the model's mouth after a turn that was cut off does not count.
    pub fn position(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Role::Assistant && !message.is_stand_in()).count()
    }

    /// What the user said last, without the agent's reminders; empty if nothing.
    pub fn prompt(&self) -> &str {
        self.user_texts().last().unwrap_or_default().trim()
    }

    /// What tools gave back for the model's last answer.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        let last_answer = self.messages.iter().rposition(|message| message.role == Role::Assistant);
        self.messages[last_answer.map_or(0, |index| index + 1)..].iter().flat_map(|message| &message.blocks).filter_map(
            |block| match block {
                Block::ToolResult(result) => Some(result),
                _ => None,
            },
        )
    }

    /// The text of the last tool result in the whole conversation; empty if there is none.
    pub fn last_result(&self) -> &str {
        let mut results = self.messages.iter().flat_map(|message| &message.blocks).filter_map(|block| match block {
            Block::ToolResult(result) => Some(result.text.as_str()),
            _ => None,
        });
        results.next_back().unwrap_or_default()
    }

    /// The page, where this is the request in which the agent has a fetched page summed up before its model sees it.
    pub fn fetched_page(&self) -> Option<&str> {
        if self.messages.len() != 1 || self.tools.iter().any(|tool| !tool.server_side) {
            return None;
        }
        let (_, page) = self.user_texts().last()?.split_once("Web page content:\n---\n")?;
        Some(page.rfind("\n---\n").map_or(page, |end| &page[..end]))
    }

    /// A request beside the conversation: a summary, a search, a title. It has no tools of the agent.
    pub(crate) fn is_aside(&self) -> bool {
        let all_server_side = self.tools.iter().all(|tool| tool.server_side);
        self.fetched_page().is_some() || (all_server_side && (self.names_session || !self.tools.is_empty()))
    }

    /// What was said in the user's name, oldest first, without reminders.
    fn user_texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter(|message| message.role == Role::User).flat_map(Message::texts)
    }
}

impl Message {
    /// Its texts, without the reminders that agents add.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) if !is_reminder(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Whether the agent wrote it in the model's name after a turn that was cut off.
    pub(crate) fn is_stand_in(&self) -> bool {
        self.role == Role::Assistant && matches!(&self.blocks[..], [Block::Text(text)] if text.trim() == STAND_IN)
    }

    /// The ids of the tool calls in it.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }
}

fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}
