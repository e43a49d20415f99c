//! The labels and names by which our containers and images are found again, by a sweep above all.

use std::collections::HashMap;

use uuid::Uuid;

/// On everything that redroom makes in an engine.
pub(crate) const LABEL: &str = "redroom";
/// The session's id.
pub(crate) const SESSION: &str = "redroom.session";
/// The run's id.
pub(crate) const RUN: &str = "redroom.run";
/// The slot's number.
pub(crate) const SLOT: &str = "redroom.slot";
/// What a container is for: one of [`Role`].
pub(crate) const ROLE: &str = "redroom.role";
/// The run-time folder in which the session's lock lies: who has another one cannot judge by locks.
pub(crate) const LOCKS: &str = "redroom.locks";

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Holds a sidecar.
    Slot,
    /// Holds an agent.
    Agent,
    /// Never started: a file of the image is read from it.
    Peek,
}

impl Role {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Slot => "slot",
            Role::Agent => "agent",
            Role::Peek => "peek",
        }
    }
}

/// A container's name. Never the same twice, so that no corpse stands in the way of a start.
pub(crate) fn container_name(session: &str, role: Role) -> String {
    let session: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("redroom-{session}-{}-{}", role.word(), Uuid::new_v4().simple())
}

/// Of the label that everything of ours has.
pub(crate) fn label_filter() -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{LABEL}=1")])])
}

/// Labels of a container.
pub(crate) fn labels<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    let own = [(LABEL, "1")];
    own.into_iter().chain(pairs).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_allowed_by_the_engine_and_never_the_same() {
        let name = container_name("../-7c9e6679-7425", Role::Agent);
        assert!(name.starts_with("redroom-7c9e6679-agent-"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        assert_ne!(name, container_name("../-7c9e6679-7425", Role::Agent));
    }
}
