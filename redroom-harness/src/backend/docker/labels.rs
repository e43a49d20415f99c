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

/// Whose something in the engine is, by its own labels. Nothing is ever known by its name: anybody can use that, and names of ours too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The session; none for what an earlier version has read an image with.
    pub(crate) session: Option<String>,
    /// The run-time folder with the session's lock.
    pub(crate) locks: String,
}

impl Owner {
    /// Of a container of ours; `None` for one that has not all of the labels that each of ours has.
    pub(crate) fn of_container(labels: &HashMap<String, String>) -> Option<Self> {
        let owner = Self::of(labels)?;
        match labels.get(ROLE)?.as_str() {
            // Those of earlier versions had no session.
            role if role == Role::Peek.word() => Some(owner),
            role if role == Role::Slot.word() || role == Role::Agent.word() => owner.session.is_some().then_some(owner),
            _ => None,
        }
    }

    /// Of a network or volume, as other versions may have made them: those belong to sessions.
    pub(crate) fn of_other(labels: &HashMap<String, String>) -> Option<Self> {
        Self::of(labels).filter(|owner| owner.session.is_some())
    }

    fn of(labels: &HashMap<String, String>) -> Option<Self> {
        let id = |label: &str| match labels.get(label) {
            Some(text) => Uuid::try_parse(text).is_ok().then(|| Some(text.clone())),
            None => Some(None),
        };
        (labels.get(LABEL)? == "1").then_some(())?;
        Some(Owner { session: id(SESSION)?, locks: id(LOCKS)?? })
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

    #[test]
    fn who_has_half_of_our_labels_is_not_ours() {
        let session = Uuid::new_v4().to_string();
        let folder = Uuid::new_v4().to_string();
        let whole = labels([(SESSION, &session), (LOCKS, &folder), (ROLE, "agent")]);
        let owner = Owner { session: Some(session.clone()), locks: folder.clone() };
        assert_eq!(Owner::of_container(&whole), Some(owner.clone()));
        for missing in [LABEL, SESSION, LOCKS, ROLE] {
            let mut half = whole.clone();
            half.remove(missing);
            assert_eq!(Owner::of_container(&half), None, "without {missing}");
        }
        for (label, value) in [(LABEL, "2"), (SESSION, "mine"), (LOCKS, "../.."), (ROLE, "database")] {
            let mut other = whole.clone();
            other.insert(label.to_owned(), value.to_owned());
            assert_eq!(Owner::of_container(&other), None, "{label}={value}");
        }
        let peek = labels([(LOCKS, &folder), (ROLE, "peek")]);
        assert_eq!(Owner::of_container(&peek), Some(Owner { session: None, locks: folder.clone() }));
        assert_eq!(Owner::of_other(&labels([(SESSION, &session), (LOCKS, &folder)])), Some(owner));
        assert_eq!(Owner::of_other(&labels([(LOCKS, &folder)])), None);
    }
}
