//! The secrets that a user plants and redroom looks for. Their values never show in a debug form.

use std::fmt;

use super::named::named;
use crate::error::Result;

/// The fewest characters that a secret may have: shorter ones would be found by chance.
const SHORTEST: usize = 8;
/// The most bytes that a secret's name may have.
const LONGEST_NAME: usize = 64;

/// A secret to plant and to look for: a value of at least 8 characters, or a [`canary`](super::canary()).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: String,
    planted: bool,
}

impl Secret {
    /// A secret with this value. That it is long enough is checked when the run starts, where its name is known.
    pub fn new(value: impl Into<String>) -> Self {
        Secret { value: value.into(), planted: true }
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether it must stand somewhere in what is planted; not so after [`unplanted`].
    pub fn must_be_planted(&self) -> bool {
        self.planted
    }
}

/// Marks a secret that stands nowhere in what is planted: the agent learns it in another way, such as a message of the
/// test, or must not have it at all.
pub fn unplanted(secret: impl Into<Secret>) -> Secret {
    Secret { planted: false, ..secret.into() }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Secret::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Secret::new(value)
    }
}

impl From<&String> for Secret {
    fn from(value: &String) -> Self {
        Secret::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("planted", &self.planted).finish_non_exhaustive()
    }
}

/// Secrets by name, in order. Names and values are checked when the run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(Vec<(String, Secret)>);

impl Secrets {
    /// The same secrets and one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, secret: impl Into<Secret>) -> Self {
        self.0.push((name.into(), secret.into()));
        self
    }
}

named!(Secrets of Secret, by IntoSecrets::into_secrets);

/// What `secrets` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no secrets",
    label = "not secrets",
    note = "`secrets` takes a map literal, `Secrets`, a `Result` of it, an array, `Vec`, slice or map of (name, secret)"
)]
pub trait IntoSecrets {
    /// The secrets.
    ///
    /// # Errors
    /// When they cannot be made; told when the run starts.
    fn into_secrets(self) -> Result<Secrets>;
}

/// Why a secret cannot be looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SecretFault {
    #[error("secret `{0}` needs another name: letters, digits and `_`, not a digit first, at most {LONGEST_NAME}")]
    Name(String),
    #[error(
        "secret `{0}` has fewer than {SHORTEST} characters and would be found by chance: make it longer, or use `canary()`"
    )]
    TooShort(String),
    #[error("secret `{0}` is declared twice")]
    Twice(String),
}

impl SecretFault {
    pub(super) fn code(&self) -> &'static str {
        match self {
            SecretFault::Name(_) | SecretFault::TooShort(_) => "invalid_secret",
            SecretFault::Twice(_) => "duplicate_secret",
        }
    }
}

/// Everything that is wrong with the secrets by themselves.
pub(super) fn faults(secrets: &Secrets) -> Vec<SecretFault> {
    let mut names = std::collections::BTreeSet::new();
    let mut faults = Vec::new();
    for (name, secret) in secrets.iter() {
        if !is_name(name) {
            faults.push(SecretFault::Name(name.to_owned()));
        }
        if secret.value.chars().take(SHORTEST).count() < SHORTEST {
            faults.push(SecretFault::TooShort(name.to_owned()));
        }
        if !names.insert(name) {
            faults.push(SecretFault::Twice(name.to_owned()));
        }
    }
    faults
}

fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told_by_the_secrets_name_and_never_its_value() {
        let secrets = Secrets::new()
            .with("short", "1234567")
            .with("wide", "ééééééé")
            .with("good", "PLATYPUS-7731")
            .with("good", "PLATYPUS-7731")
            .with("bad-name", "PLATYPUS-7731")
            .with("1st", "PLATYPUS-7731")
            .with("", "PLATYPUS-7731");
        let faults = faults(&secrets);
        assert_eq!(
            faults,
            [
                SecretFault::TooShort("short".into()),
                SecretFault::TooShort("wide".into()),
                SecretFault::Twice("good".into()),
                SecretFault::Name("bad-name".into()),
                SecretFault::Name("1st".into()),
                SecretFault::Name(String::new()),
            ]
        );
        assert!(faults.iter().all(|fault| !fault.to_string().contains("1234567")));
    }

    #[test]
    fn eight_characters_are_enough_and_values_may_overlap() {
        assert_eq!(faults(&Secrets::new().with("a", "12345678").with("b", "123456789").with("_c", "12345678")), []);
    }

    #[test]
    fn a_debug_form_never_shows_a_value() {
        let secrets = [("token", "PLATYPUS-7731")].into_secrets().unwrap();
        let shown = format!("{secrets:?}");
        assert!(shown.contains("token") && !shown.contains("PLATYPUS"), "{shown}");
    }

    #[test]
    fn unplanted_marks_any_kind_of_secret() {
        assert!(Secret::from("PLATYPUS-7731").must_be_planted());
        assert!(!unplanted("PLATYPUS-7731").must_be_planted());
        assert!(!unplanted(Secret::new("PLATYPUS-7731")).must_be_planted());
    }
}
