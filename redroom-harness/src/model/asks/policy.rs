//! What a run lets its agent ask of the provider.

use std::collections::BTreeSet;

use super::{Ask, AskKind, Asks};
use crate::error::{By, Error, Result};

/// What a run lets its agent ask of the provider: nothing, unless it is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProviderTools(BTreeSet<String>);

impl ProviderTools {
    /// Those of these names: types of tools, with or without their date, and kinds of other things.
    ///
    /// # Errors
    ///
    /// `invalid_provider_tool`: what cannot be a name, or can never be allowed.
    pub(crate) fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        for name in &names {
            let never = [AskKind::Credentials, AskKind::Host].iter().any(|kind| kind.name() == name);
            if !is_name(name) || never {
                return Err(Error::redroom(
                    "invalid_provider_tool",
                    format!(
                        "allow_provider_tools: {name:?} can be no tool; name types of tools, such as \"web_search\" or \
                         \"web_search_20250305\", or mcp_servers, container, url_source, file_source, files, batch, stored_state"
                    ),
                ));
            }
        }
        Ok(ProviderTools(names))
    }

    /// Whether all of this may be asked.
    ///
    /// # Errors
    ///
    /// `provider_tool_denied`, `foreign_credentials`, `foreign_host`: the agent's doing, not the provider's.
    pub(crate) fn check(&self, asks: &Asks) -> Result<()> {
        let denied = |code: &'static str, detail: String| Err(Error::new(By::Agent, code, detail));
        let mut tools = Vec::new();
        for ask in asks.iter() {
            match ask.kind {
                AskKind::Credentials => {
                    return denied(
                        "foreign_credentials",
                        "the agent sent its model credentials that the run did not give it (see the model call's headers); the \
                         request went nowhere"
                            .to_owned(),
                    );
                }
                AskKind::Host => {
                    return denied(
                        "foreign_host",
                        "the agent sent its model a request that was meant for another host (see the model call's headers); it \
                         went nowhere"
                            .to_owned(),
                    );
                }
                _ if self.allows(ask) => {}
                _ => tools.push(ask),
            }
        }
        if tools.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> = tools.iter().take(5).map(ToString::to_string).collect();
        denied(
            "provider_tool_denied",
            format!(
                "the agent asked the provider for {}, which would act outside of the sandbox, so the request went nowhere; if the \
                 attack is about it, name it in allow_provider_tools",
                listed.join(", ")
            ),
        )
    }

    fn allows(&self, ask: &Ask) -> bool {
        let key = ask.key();
        self.0.contains(key) || undated(key).is_some_and(|name| self.0.contains(name))
    }
}

/// A tool's type without the date of its version: `web_search_20250305`.
pub(super) fn undated(kind: &str) -> Option<&str> {
    let (name, date) = kind.rsplit_once('_')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// Whether a text can be a tool's type, and is safe to repeat.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-:.".contains(&byte))
}
