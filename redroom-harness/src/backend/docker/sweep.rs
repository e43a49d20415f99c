//! Removes what dead sessions left in the engine, and nothing else.
//!
//! A session of this user's lock folder lives as long as it holds its lock and its heart beats. Of one from elsewhere (another user,
//! another machine, another container with the same engine) the lock cannot be seen: it lives as long as a slot of it runs, for a slot
//! ends with the process that opened it, or with its lease; and it is given a minute to get that far.
//!
//! Whose something is, its own labels say, all of them ([`Owner`]), and they are looked at again right before it is removed: the engine's
//! filter and names are no proof. What cannot be removed stands in nobody's way; the next sweep tries again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
};
use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::{Instant, sleep, timeout_at};

use super::container::remove;
use super::engine::{Engine, unless};
use super::labels::{Owner, ROLE, Role, SESSION, label_filter};
use super::prune;
use crate::backend::Swept;
use crate::backend::session::SessionLocks;
use crate::error::{Error, Result};

/// How long a session from elsewhere may be without a running slot.
const GRACE: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 8;
/// How long the end of a session may take: dozens of containers on an engine that is busy otherwise.
const END_DEADLINE: Duration = Duration::from_secs(60);
/// How often what is being removed is looked for: soon at first, and at least this often.
const LOOK_SOON: Duration = Duration::from_millis(20);
const LOOK_LATE: Duration = Duration::from_millis(500);

pub(crate) async fn sweep(engine: &Engine, locks: &SessionLocks) -> Result<Swept> {
    let found = containers(engine, label_filter()).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut swept = Swept::default();
    // Of a dead session it is known only once.
    let mut lives: HashMap<String, bool> = HashMap::new();
    let mut lives = |session: &str| *lives.entry(session.to_owned()).or_insert_with(|| locks.lives(session));

    let dead: Vec<Found> = dead(&found, locks.id(), &mut lives, now).into_iter().cloned().collect();
    for (found, removed) in remove_all(engine, dead).await {
        note(removed, found.name, &mut swept.containers, &mut swept.left);
    }
    let mut own = |owner: Owner| owner.session.filter(|session| owner.locks == locks.id() && !lives(session)).is_some();
    for network in networks(engine).await? {
        if own(network.owner) {
            let removed = remove_network(engine, &network.id).await;
            note(removed, network.name, &mut swept.networks, &mut swept.left);
        }
    }
    for volume in volumes(engine).await? {
        if own(volume.owner.clone()) {
            let removed = remove_volume(engine, &volume).await;
            note(removed, volume.name, &mut swept.volumes, &mut swept.left);
        }
    }
    match prune::prune(engine, None).await {
        Ok(images) => swept.images = images,
        Err(error) => swept.left.push(error.to_string()),
    }
    swept.containers.sort();
    Ok(swept)
}

/// Removes every container of one session, those included that are still being made or removed, and ends when the engine lists none of
/// it any more.
pub(crate) async fn end_session(engine: &Engine, session: &str) -> Result<()> {
    let deadline = Instant::now() + END_DEADLINE;
    // Whoever asked for a container may have been given up meanwhile; the container comes all the same.
    let _ = timeout_at(deadline, engine.tasks.wait()).await;
    let mut pause = LOOK_SOON;
    loop {
        let filter = HashMap::from([("label".to_owned(), vec![format!("{SESSION}={session}")])]);
        let mut found = containers(engine, filter).await?;
        found.retain(|found| found.owner.session.as_deref() == Some(session));
        if found.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
        let removed = remove_all(engine, found).await;
        let failure = removed.into_iter().find_map(|(_, removed)| removed.err());
        if Instant::now() > deadline {
            let names = names.join(", ");
            return Err(failure.unwrap_or_else(|| {
                let detail =
                    format!("the Docker engine still lists {names} {} s after their end", END_DEADLINE.as_secs());
                Error::backend("docker_timeout", detail)
            }));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_LATE);
    }
}

/// Removes a few at once.
async fn remove_all(engine: &Engine, found: Vec<Found>) -> Vec<(Found, Result<bool>)> {
    let removals = stream::iter(found).map(|found| async move {
        let removed = remove_own(engine, &found).await;
        (found, removed)
    });
    removals.buffer_unordered(AT_ONCE).collect().await
}

/// Takes note of a removal, whoever was faster; one that failed keeps nobody from going on.
fn note(removed: Result<bool>, name: String, gone: &mut Vec<String>, left: &mut Vec<String>) {
    match removed {
        Ok(true) => gone.push(name),
        Ok(false) => {}
        Err(error) => left.push(format!("{name}: {error}")),
    }
}

async fn containers(engine: &Engine, filter: HashMap<String, Vec<String>>) -> Result<Vec<Found>> {
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filter).build();
    let found = engine.call("list containers", engine.docker.list_containers(Some(options))).await?;
    Ok(found.into_iter().filter_map(Found::read).collect())
}

/// Removes a container if it says itself that it is what it was taken for; `false` if somebody else has, or is about to.
async fn remove_own(engine: &Engine, found: &Found) -> Result<bool> {
    let asking = engine.docker.inspect_container(&found.id, None);
    let Some(inspected) = unless(&[404], engine.call("look at a container", asking).await)? else { return Ok(false) };
    let labels = inspected.config.and_then(|config| config.labels).unwrap_or_default();
    if Owner::of_container(&labels).as_ref() != Some(&found.owner) {
        return Ok(false);
    }
    remove(engine, &found.id).await
}

/// A network or volume of ours.
struct Other {
    id: String,
    name: String,
    owner: Owner,
}

async fn networks(engine: &Engine) -> Result<Vec<Other>> {
    let options = ListNetworksOptionsBuilder::new().filters(&label_filter()).build();
    let found = engine.call("list networks", engine.docker.list_networks(Some(options))).await?;
    let read = |network: bollard::models::Network| {
        let owner = Owner::of_other(&network.labels.unwrap_or_default())?;
        Some(Other { id: network.id?, name: network.name.unwrap_or_default(), owner })
    };
    Ok(found.into_iter().filter_map(read).collect())
}

/// By its id, which is never another network's. One that still has containers is left alone.
async fn remove_network(engine: &Engine, id: &str) -> Result<bool> {
    let removed = engine.call("remove a network", engine.docker.remove_network(id)).await;
    Ok(unless(&[403, 404, 409], removed)?.is_some())
}

async fn volumes(engine: &Engine) -> Result<Vec<Other>> {
    let options = ListVolumesOptionsBuilder::new().filters(&label_filter()).build();
    let found = engine.call("list volumes", engine.docker.list_volumes(Some(options))).await?;
    let read = |volume: bollard::models::Volume| {
        Some(Other { owner: Owner::of_other(&volume.labels)?, id: volume.name.clone(), name: volume.name })
    };
    Ok(found.volumes.unwrap_or_default().into_iter().filter_map(read).collect())
}

/// A volume has nothing but its name: it is asked once more whose it is.
async fn remove_volume(engine: &Engine, found: &Other) -> Result<bool> {
    let name = &found.name;
    let asked = engine.call("look at a volume", engine.docker.inspect_volume(name)).await;
    let Some(volume) = unless(&[404], asked)? else { return Ok(false) };
    if Owner::of_other(&volume.labels).as_ref() != Some(&found.owner) {
        return Ok(false);
    }
    let removed = engine.call("remove a volume", engine.docker.remove_volume(name, None::<RemoveVolumeOptions>)).await;
    Ok(unless(&[404, 409], removed)?.is_some())
}

/// A container of redroom's.
#[derive(Clone, Debug)]
struct Found {
    id: String,
    name: String,
    owner: Owner,
    running_slot: bool,
    /// Since 1970, by the engine's clock.
    created: Duration,
}

impl Found {
    /// `None` for one that is not ours.
    fn read(summary: ContainerSummary) -> Option<Self> {
        let labels = summary.labels.unwrap_or_default();
        let running = summary.state == Some(ContainerSummaryStateEnum::RUNNING);
        let name = summary.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        Some(Found {
            owner: Owner::of_container(&labels)?,
            id: summary.id?,
            name: name.trim_start_matches('/').to_owned(),
            running_slot: running && labels.get(ROLE).is_some_and(|role| role == Role::Slot.word()),
            created: Duration::from_secs(summary.created.and_then(|at| u64::try_from(at).ok()).unwrap_or(0)),
        })
    }
}

/// Those whose session is dead.
fn dead<'a>(found: &'a [Found], own_locks: &str, mut lives: impl FnMut(&str) -> bool, now: Duration) -> Vec<&'a Found> {
    let mut sessions: HashMap<Option<&str>, Vec<&Found>> = HashMap::new();
    for container in found {
        sessions.entry(container.owner.session.as_deref()).or_default().push(container);
    }
    let young = |container: &Found| now.saturating_sub(container.created) < GRACE;
    sessions
        .into_iter()
        .flat_map(|(session, containers)| match session {
            // No session's: an earlier version reads a file from an image, which takes a moment.
            None => containers.into_iter().filter(|container| !young(container)).collect(),
            Some(session) => {
                let ours = containers.iter().any(|container| container.owner.locks == own_locks);
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
            owner: Owner { session: (!session.is_empty()).then(|| session.to_owned()), locks: locks.to_owned() },
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
        ];
        assert_eq!(swept(&found), ["left"]);
    }

    #[test]
    fn a_container_without_a_session_goes_after_a_minute() {
        assert_eq!(swept(&[container("", "here", false, 90), container("", "here", false, 3)]), [""]);
    }
}
