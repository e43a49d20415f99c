//! The address of a service as a user wrote it. User, password and query may be secrets: they show up in no error and no
//! debug output.

use std::fmt;

use serde::Deserialize;
use url::Url;

use super::{Service, is_credential, looks_like_key};

/// Parts of a query that say which form of an API is spoken, and are no secrets.
const OPEN: [&str; 2] = ["api-version", "version"];

/// An address that has not been checked yet.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Address(text.into())
    }

    /// The service at it; see [`Service::parse`].
    pub(crate) fn parse(&self) -> Result<Service, String> {
        Service::parse(&self.0)
    }

    /// What in it may be a secret, as it is written and as it is meant.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let Ok(url) = Url::parse(&self.0) else { return Vec::new() };
        let written = url.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or(("", pair)));
        let meant = url.query_pairs().map(|(name, value)| match value.is_empty() {
            true => (String::new(), name.into_owned()),
            false => (name.into_owned(), value.into_owned()),
        });
        written
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .chain(meant)
            .filter(|(name, value)| {
                name.is_empty() || is_credential(name) || looks_like_key(value) && !OPEN.contains(&name.as_str())
            })
            .map(|(_, value)| value)
            .chain([url.username(), url.password().unwrap_or_default()].map(str::to_owned))
            .filter(|value| !value.is_empty())
            .collect()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Url::parse(&self.0) {
            Ok(url) => write!(f, "\"{}{}\"", url.origin().ascii_serialization(), url.path()),
            Err(_) => f.write_str("(no URL)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_told_apart_and_never_shown() {
        let address = Address::new("https://me:pass%20word@h/guard?token=hunter%2B2&api-version=2024-01-01&bare");
        assert_eq!(address.secrets(), ["hunter%2B2", "bare", "hunter+2", "bare", "me", "pass%20word"]);
        assert_eq!(format!("{address:?}"), "\"https://h/guard\"");
        let address = Address::new("https://h/guard?mode=blocking&id=x9K2mQ7pL4vZ");
        assert_eq!(address.secrets(), ["x9K2mQ7pL4vZ", "x9K2mQ7pL4vZ"]);
        assert_eq!(format!("{:?}", Address::new("no url hunter2")), "(no URL)");
    }
}
