//! What a request's head asks: with whose credentials, and of whom.

use http::{HeaderMap, header};
use url::form_urlencoded;

use super::{AskKind, Asks};
use crate::outbound::is_credential;

/// Headers by which gateways and servers send a request to another host, or take it for another path, than it was checked for.
const ELSEWHERE: [&str; 6] = [
    "helicone-target-url",
    "x-portkey-config",
    "x-portkey-custom-host",
    "x-forwarded-host",
    "x-original-url",
    "x-rewrite-url",
];

/// What the run gave its agent, so that it is no surprise in a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The host that the agent's model requests go to, as `host:port`.
    host: String,
    /// Values of its environment.
    values: Vec<String>,
    /// Files of its settings.
    files: Vec<Vec<u8>>,
}

impl Given {
    pub(crate) fn new(
        host: impl Into<String>,
        values: impl IntoIterator<Item = String>,
        files: impl IntoIterator<Item = Vec<u8>>,
    ) -> Self {
        Given { host: host.into(), values: values.into_iter().collect(), files: files.into_iter().collect() }
    }

    /// Whether the agent has these credentials from the run: as a value of its own, or in one of its files.
    fn knows(&self, credentials: &str) -> bool {
        // What comes after a scheme is what counts; what is none could be a key itself.
        let is_scheme =
            |word: &str| ["bearer", "basic", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let bare = match credentials.split_once(' ') {
            Some((scheme, bare)) if is_scheme(scheme) => bare.trim(),
            _ => credentials,
        };
        let in_files = || self.files.iter().any(|file| holds(file, bare.as_bytes()));
        bare.is_empty() || self.values.iter().any(|value| value == bare) || (bare.len() >= 8 && in_files())
    }
}

fn holds(file: &[u8], text: &[u8]) -> bool {
    file.windows(text.len()).any(|window| window == text)
}

/// Adds what a request's head asks. `target` is its path and query; `headers` are all that the agent sent.
pub(crate) fn of_head<'a>(
    target: &str,
    headers: impl IntoIterator<Item = &'a HeaderMap>,
    given: &Given,
    asks: &mut Asks,
) {
    for (name, value) in headers.into_iter().flatten() {
        let value = String::from_utf8_lossy(value.as_bytes());
        if name == header::HOST {
            if !value.trim().eq_ignore_ascii_case(&given.host) {
                asks.add(AskKind::Host, value.trim());
            }
        } else if ELSEWHERE.contains(&name.as_str()) {
            asks.add(AskKind::Host, value.trim());
        } else if is_credential(name.as_str()) && !given.knows(value.trim()) {
            asks.add(AskKind::Credentials, name.as_str());
        }
    }
    let query = target.split_once('?').map(|(_, query)| query).unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if is_credential(&name) && !given.knows(value.trim()) {
            asks.add(AskKind::Credentials, "?");
        }
    }
}
