//! What a model request asks of the provider beside an answer: to search, to fetch, to run code, to connect to somebody, to
//! use what it has kept. Whoever gets the request does such things out of this machine's sight, with a network of its own.
//!
//! Pure: a request's head and body in, [`Ask`]s out. Knows nothing of runs, sandboxes or what answers. A body of which two
//! readers could see different things is not read at all.

mod body;
mod head;
mod policy;
mod reading;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use body::{BODY_LIMIT, plain};
pub(crate) use head::{Given, of_head};
pub(crate) use policy::ProviderTools;
pub(crate) use reading::of_body;

/// The most of something that an agent wrote that an ask repeats, in characters.
const LONGEST: usize = 200;
/// The most different things that a request may ask for.
const MOST: usize = 100;

/// Something that a model request asks of the provider beside an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ask {
    /// What kind of thing.
    pub kind: AskKind,
    /// Which one, in the agent's words: a tool's type, an address, a header's name. At most 200 characters.
    pub name: String,
}

/// What kind of thing a request asks of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskKind {
    /// A tool that runs where the model runs: a web search, a code interpreter. Named by its type.
    ProviderTool,
    /// MCP servers that the provider connects to. Named by its address.
    McpServers,
    /// A container of the provider's, or skills in it.
    Container,
    /// An image or a document that the provider is to fetch. Named by its address.
    UrlSource,
    /// A file that lies with the provider already.
    FileSource,
    /// A file that is to be kept by the provider.
    Files,
    /// A batch: requests that are answered later.
    Batch,
    /// Something else that the provider has kept: an earlier answer, a conversation, a prompt.
    StoredState,
    /// Credentials that the run did not give the agent. Named by their header.
    Credentials,
    /// Another host than the one that the agent's requests go to.
    Host,
}

impl Ask {
    pub(crate) fn new(kind: AskKind, name: &str) -> Self {
        Ask { kind, name: name.chars().take(LONGEST).collect() }
    }

    /// What an allowance has to name: a tool's type, else the kind.
    pub(crate) fn key(&self) -> &str {
        match self.kind {
            AskKind::ProviderTool => &self.name,
            kind => kind.name(),
        }
    }
}

impl AskKind {
    /// As it is serialised.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AskKind::ProviderTool => "provider_tool",
            AskKind::McpServers => "mcp_servers",
            AskKind::Container => "container",
            AskKind::UrlSource => "url_source",
            AskKind::FileSource => "file_source",
            AskKind::Files => "files",
            AskKind::Batch => "batch",
            AskKind::StoredState => "stored_state",
            AskKind::Credentials => "credentials",
            AskKind::Host => "host",
        }
    }
}

/// In words that hold nothing that an agent could have made up, but the name of a tool that looks like one.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AskKind::ProviderTool if policy::is_name(&self.name) => write!(f, "the provider's tool `{}`", self.name),
            AskKind::ProviderTool => f.write_str("a provider's tool whose type is no name"),
            AskKind::McpServers => f.write_str("MCP servers that the provider connects to (`mcp_servers`)"),
            AskKind::Container => f.write_str("a container of the provider's (`container`)"),
            AskKind::UrlSource => f.write_str("something that the provider is to fetch (`url_source`)"),
            AskKind::FileSource => f.write_str("a file that lies with the provider (`file_source`)"),
            AskKind::Files => f.write_str("a file that the provider is to keep (`files`)"),
            AskKind::Batch => f.write_str("a batch (`batch`)"),
            AskKind::StoredState => f.write_str("what the provider has kept from before (`stored_state`)"),
            AskKind::Credentials => f.write_str("credentials that the run did not give the agent"),
            AskKind::Host => f.write_str("another host than the model's"),
        }
    }
}

/// What a request asks for, each thing once.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Asks {
    asks: Vec<Ask>,
    /// Whether there were more than are kept.
    overflown: bool,
}

impl Asks {
    pub(crate) fn add(&mut self, kind: AskKind, name: &str) {
        let ask = Ask::new(kind, name);
        if self.asks.contains(&ask) {
            return;
        }
        if self.asks.len() < MOST {
            self.asks.push(ask);
        } else {
            self.overflown = true;
        }
    }

    pub(crate) fn add_all(&mut self, others: Asks) {
        others.asks.iter().for_each(|ask| self.add(ask.kind, &ask.name));
        self.overflown |= others.overflown;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.asks.iter()
    }

    pub(crate) fn into_vec(self) -> Vec<Ask> {
        self.asks
    }

    /// Whether it asks for more than anybody could check.
    pub(crate) fn is_overflown(&self) -> bool {
        self.overflown
    }
}
