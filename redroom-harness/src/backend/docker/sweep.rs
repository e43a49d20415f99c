//! Removes what dead sessions left in the engine, and nothing else.
//!
//! A session of this user's lock folder lives as long as it holds its lock. Of one from elsewhere (another user, another machine,
//! another container with the same engine) the lock cannot be seen: it lives as long as a slot of it runs, for a slot ends with the process
//! that opened it; and it is given a minute to get that far.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::StreamExt;
use futures_util::stream;

use super::container::remove;
use super::engine::Engine;
use super::labels::{LOCKS, ROLE, Role, SESSION, label_filter};
use super::pack;
use crate::backend::Swept;
use crate::backend::session::SessionLocks;
use crate::error::Result;

/// How long a session from elsewhere may be without a running slot.
const GRACE: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 8;

pub(crate) async fn sweep(engine: &Engine, locks: &SessionLocks) -> Result<Swept> {
    let options = ListContainersOptionsBuilder::new().all(true).filters(&label_filter()).build();
    let found = engine.call("list containers", engine.docker.list_containers(Some(options))).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let found: Vec<Found> = found.into_iter().filter_map(Found::read).collect();
    let dead = dead(&found, locks.id(), |session| locks.lives(session), now);
    let dead: Vec<(String, String)> = dead.into_iter().map(|it| (it.id.clone(), it.name.clone())).collect();
    let removals = stream::iter(dead)
        .map(|(id, name)| async move { Ok(remove(engine, &id).await?.then_some(name)) })
        .buffer_unordered(AT_ONCE);
    let removed: Vec<Result<Option<String>>> = removals.collect().await;
    let mut swept = Swept::default();
    for name in removed {
        swept.containers.extend(name?);
    }
    swept.containers.sort();
    swept.images = pack::prune(engine, None).await?;
    Ok(swept)
}

/// Removes every container of one session.
pub(crate) async fn end_session(engine: &Engine, session: &str) -> Result<()> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{SESSION}={session}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = engine.call("list containers", engine.docker.list_containers(Some(options))).await?;
    let removals = stream::iter(found.into_iter().filter_map(|container| container.id))
        .map(|id| async move { remove(engine, &id).await })
        .buffer_unordered(AT_ONCE);
    let removed: Vec<Result<bool>> = removals.collect().await;
    removed.into_iter().collect::<Result<Vec<bool>>>().map(drop)
}

/// A container of redroom's.
#[derive(Clone, Debug)]
struct Found {
    id: String,
    name: String,
    session: Option<String>,
    locks: Option<String>,
    running_slot: bool,
    /// Since 1970, by the engine's clock.
    created: Duration,
}

impl Found {
    fn read(summary: ContainerSummary) -> Option<Self> {
        let mut labels = summary.labels.unwrap_or_default();
        let running = summary.state == Some(ContainerSummaryStateEnum::RUNNING);
        let name = summary.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        Some(Found {
            id: summary.id?,
            name: name.trim_start_matches('/').to_owned(),
            running_slot: running && labels.get(ROLE).is_some_and(|role| role == Role::Slot.word()),
            session: labels.remove(SESSION),
            locks: labels.remove(LOCKS),
            created: Duration::from_secs(summary.created.and_then(|at| u64::try_from(at).ok()).unwrap_or(0)),
        })
    }
}

/// Those whose session is dead.
fn dead<'a>(found: &'a [Found], own_locks: &str, lives: impl Fn(&str) -> bool, now: Duration) -> Vec<&'a Found> {
    let mut sessions: HashMap<Option<&str>, Vec<&Found>> = HashMap::new();
    for container in found {
        sessions.entry(container.session.as_deref()).or_default().push(container);
    }
    let young = |container: &Found| now.saturating_sub(container.created) < GRACE;
    sessions
        .into_iter()
        .flat_map(|(session, containers)| match session {
            // No session's: a file is being read from an image, which takes a moment.
            None => containers.into_iter().filter(|container| !young(container)).collect(),
            Some(session) => {
                let ours = containers.iter().any(|container| container.locks.as_deref() == Some(own_locks));
                let lives = if ours {
                    lives(session)
                } else {
                    containers.iter().any(|container| container.running_slot || young(container))
                };
                if lives { Vec::new() } else { containers }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    fn container(session: &str, locks: &str, running_slot: bool, age: u64) -> Found {
        Found {
            id: String::new(),
            name: session.to_owned(),
            session: (!session.is_empty()).then(|| session.to_owned()),
            locks: (!locks.is_empty()).then(|| locks.to_owned()),
            running_slot,
            created: NOW - Duration::from_secs(age),
        }
    }

    fn swept(found: &[Found]) -> Vec<&str> {
        let mut names: Vec<&str> = dead(found, "here", |session| session.starts_with("live"), NOW)
            .into_iter()
            .map(|found| &found.name[..])
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_lock_decides_over_sessions_of_this_folder() {
        let found = [
            container("live", "here", false, 9999),
            container("dead", "here", false, 1),
            // A sidecar that hangs keeps nothing alive.
            container("dead too", "here", true, 1),
        ];
        assert_eq!(swept(&found), ["dead", "dead too"]);
    }

    #[test]
    fn a_session_from_elsewhere_lives_by_its_slot_or_its_youth() {
        let found = [
            container("with slot", "there", true, 9999),
            container("with slot", "there", false, 9999),
            container("young", "there", false, 30),
            container("left", "there", false, 90),
            container("unmarked", "", false, 90),
        ];
        assert_eq!(swept(&found), ["left", "unmarked"]);
    }

    #[test]
    fn a_container_without_a_session_goes_after_a_minute() {
        assert_eq!(swept(&[container("", "here", false, 90), container("", "here", false, 3)]), [""]);
    }
}
