//! What is uploaded into a sandbox before it starts: what the spec names, and the folders that this takes for granted.

use std::collections::HashSet;

use super::upload::Access;
use super::waiter;
use crate::backend::{AGENT_UID, HOME, Owner, PlacedEntry, PlacedKind, WORKSPACE};
use crate::error::{Error, Result};

/// Where folders that were not named belong to the agent, as if it had made them itself. Elsewhere the engine makes them, for root.
const AGENT_PLACES: [&str; 5] = [HOME, WORKSPACE, "/tmp", "/var/tmp", "/run/lock"];

/// One member of the upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) path: String,
    pub(crate) kind: PlacedKind,
    pub(crate) access: Access,
}

/// The upload, parents first: home, workspace, the waiter, then the entries with the folders above them.
pub(crate) fn plan(entries: Vec<PlacedEntry>, waiter: Vec<u8>) -> Result<Vec<Placement>> {
    let agents = Access { mode: 0o755, uid: AGENT_UID };
    let folder = |path: &str| Placement { path: path.to_owned(), kind: PlacedKind::Folder, access: agents };
    let program = PlacedKind::File(waiter.into());
    let mut plan = vec![
        folder(HOME),
        folder(WORKSPACE),
        Placement { path: waiter::PATH.to_owned(), kind: program, access: Access::PROGRAM },
    ];
    let mut folders: HashSet<String> = AGENT_PLACES.iter().map(|place| (*place).to_owned()).collect();
    for entry in entries {
        check(&entry.path)?;
        for parent in implied(&entry.path) {
            if folders.insert(parent.to_owned()) {
                plan.push(folder(parent));
            }
        }
        if entry.kind == PlacedKind::Folder {
            folders.insert(entry.path.clone());
        }
        let uid = match entry.owner {
            Owner::Root => 0,
            Owner::Agent => AGENT_UID,
        };
        let access = Access { mode: entry.mode & 0o7777, uid };
        plan.push(Placement { path: entry.path, kind: entry.kind, access });
    }
    Ok(plan)
}

/// The folders between an agent's place and `path`, from above.
fn implied(path: &str) -> impl Iterator<Item = &str> {
    let place =
        AGENT_PLACES.into_iter().find(|place| path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/')));
    let start = place.map_or(path.len(), |place| place.len() + 1);
    path.match_indices('/').map(|(at, _)| at).filter(move |at| *at > start).map(|at| &path[..at])
}

fn check(path: &str) -> Result<()> {
    let normal = path
        .strip_prefix('/')
        .is_some_and(|rest| !rest.contains('\0') && rest.split('/').all(|part| !matches!(part, "" | "." | "..")));
    if normal && path != waiter::PATH {
        return Ok(());
    }
    Err(Error::redroom(
        "invalid_path",
        format!("{path:?} cannot be placed: it must be absolute and normal, and not redroom's own"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, owner: Owner) -> PlacedEntry {
        PlacedEntry { path: path.to_owned(), kind: PlacedKind::File("x".into()), mode: 0o644, owner }
    }

    fn paths(entries: Vec<PlacedEntry>) -> Vec<(String, u32)> {
        let plan = plan(entries, Vec::new()).unwrap();
        plan.into_iter().skip(3).map(|placed| (placed.path, placed.access.uid)).collect()
    }

    #[test]
    fn folders_that_were_not_named_belong_to_the_agent_in_its_places_only() {
        let placed = paths(vec![
            file("/workspace/a/b/c.txt", Owner::Agent),
            file("/workspace/a/d.txt", Owner::Agent),
            file("/home/agent/.config/x", Owner::Root),
            file("/etc/agent/settings.json", Owner::Root),
        ]);
        let expected = [
            ("/workspace/a", 1000),
            ("/workspace/a/b", 1000),
            ("/workspace/a/b/c.txt", 1000),
            ("/workspace/a/d.txt", 1000),
            ("/home/agent/.config", 1000),
            ("/home/agent/.config/x", 0),
            ("/etc/agent/settings.json", 0),
        ];
        assert_eq!(placed, expected.map(|(path, uid)| (path.to_owned(), uid)));
    }

    #[test]
    fn a_named_folder_is_not_made_twice() {
        let folder =
            PlacedEntry { path: "/workspace/a".to_owned(), kind: PlacedKind::Folder, mode: 0o700, owner: Owner::Root };
        let placed = paths(vec![folder, file("/workspace/a/b", Owner::Agent)]);
        assert_eq!(placed, [("/workspace/a".to_owned(), 0), ("/workspace/a/b".to_owned(), 1000)]);
    }

    #[test]
    fn paths_that_are_not_normal_or_ours_are_refused() {
        for path in ["relative", "/a/../b", "/a//b", "/a/", "/", "/a\0b", "/./a", waiter::PATH] {
            assert!(plan(vec![file(path, Owner::Root)], Vec::new()).is_err(), "{path}");
        }
    }
}
