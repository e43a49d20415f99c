//! What is left when a session ends, however it ends, and what is left alone.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use redroom_harness::backend::Backend;
use tokio::io::AsyncReadExt;

use crate::Body;
use crate::fixture::{Fixture, agent_of, containers, ensure, eventually, said, same, shell};

pub(crate) const VICTIM_ARGUMENT: &str = "__trial-victim";

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("a_killed_session_stops_within_seconds_and_is_swept", killed),
    ("a_session_killed_in_a_frozen_run_is_swept", killed_frozen),
    ("a_closed_slot_ends_its_link_and_leaves_nothing", closed),
    ("a_dropped_sandbox_leaves_nothing", dropped),
    ("a_start_that_is_given_up_leaves_nothing", given_up),
    ("the_end_of_a_session_takes_along_what_is_still_being_made", ended_while_making),
    ("what_is_ours_by_name_or_by_half_of_the_labels_is_left_alone", half_ours),
    ("networks_and_volumes_of_dead_sessions_are_swept_and_those_of_others_are_not", networks_and_volumes),
    ("a_live_session_and_the_containers_of_others_are_left_alone", left_alone),
];

/// Another process with a session of its own: a slot, and in it an agent at work.
struct Victim {
    process: Child,
    session: String,
}

impl Victim {
    fn start(how: &str) -> Result<Victim, Failed> {
        let mut process = Command::new("/proc/self/exe")
            .args([VICTIM_ARGUMENT, how])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut session = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut session)?;
        ensure(!session.trim().is_empty(), || "the other process could not open its session".to_owned())?;
        Ok(Victim { process, session: session.trim().to_owned() })
    }

    fn kill(mut self) -> Result<String, Failed> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(self.session)
    }
}

/// What the other process does: opens, tells its session, and waits for the end.
pub(crate) fn victim() -> ExitCode {
    let freeze = std::env::args().nth(2).as_deref() == Some("frozen");
    let Ok(fixture) = Fixture::new() else { return ExitCode::FAILURE };
    let outcome: Result<(), Failed> = fixture.in_slot(|place| {
        let session = fixture.session.clone();
        async move {
            let sandbox = place.sandbox(Vec::new()).await?;
            said(&*sandbox, "nohup sleep 1000 >/dev/null 2>&1 &").await?;
            if freeze {
                sandbox.freeze().await?;
            }
            writeln!(std::io::stdout(), "{session}")?;
            let mut heard = crate::fixture::Heard::default();
            if freeze {
                std::future::pending::<()>().await;
            }
            sandbox.exec(shell("while :; do date > at; done"), &mut heard).await?;
            Ok(())
        }
    });
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The engine may be removing what was found: for itself, or for a sweep of another trial.
async fn nothing_left(session: &str) -> Result<(), Failed> {
    eventually(Duration::from_secs(5), "nothing is left", || async { containers(session).await.is_empty() })
        .await
        .map(drop)
}

fn killed(fixture: &Fixture) -> Result<(), Failed> {
    let victim = Victim::start("busy")?;
    fixture.runtime.block_on(async {
        let states = containers(&victim.session).await;
        same(states.values().filter(|state| *state == "running").count(), 2, "running before")?;
        let session = victim.kill()?;
        eventually(Duration::from_secs(5), "nothing runs any more", || async {
            !containers(&session).await.values().any(|state| state == "running")
        })
        .await?;
        fixture.docker.sweep().await?;
        nothing_left(&session).await
    })
}

fn killed_frozen(fixture: &Fixture) -> Result<(), Failed> {
    let session = Victim::start("frozen")?.kill()?;
    fixture.runtime.block_on(async {
        fixture.docker.sweep().await?;
        nothing_left(&session).await
    })
}

fn closed(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let mut place = fixture.open().await?;
        let sandbox = place.sandbox(Vec::new()).await?;
        place.slot.close().await?;
        place.slot.close().await?;
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), place.link.read_to_end(&mut rest)).await;
        ensure(read.is_ok(), || "the link did not end".to_owned())?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn dropped(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        same(agent_of(&place).await.is_empty(), false, "it is there")?;
        drop(sandbox);
        eventually(Duration::from_secs(5), "it is gone", || async { agent_of(&place).await.is_empty() }).await?;
        Ok(())
    })
}

fn given_up(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        for patience in [1, 5, 10, 20, 40, 80, 160] {
            let _ = tokio::time::timeout(Duration::from_millis(patience), place.sandbox(Vec::new())).await;
        }
        // By the time that this one has come, those that were asked for before have.
        place.sandbox(Vec::new()).await?.remove().await?;
        eventually(Duration::from_secs(10), "all are gone", || async { agent_of(&place).await.is_empty() }).await?;
        Ok(())
    })
}

fn left_alone(fixture: &Fixture) -> Result<(), Failed> {
    let victim = Victim::start("busy")?;
    let outcome = fixture.in_slot(|place| {
        let other = victim.session.clone();
        async move {
            let sandbox = place.sandbox(Vec::new()).await?;
            let stranger = stranger(STRANGER, &[]).await?;
            let swept = fixture.docker.sweep().await;
            let survived = stranger_lives(&stranger).await;
            remove(&stranger).await?;
            let names = swept?.containers;
            same(survived, true, "a container of somebody else")?;
            ensure(
                !names.iter().any(|name| name.contains(&other[..8]) || name.contains(&fixture.session[..8])),
                || format!("{names:?}"),
            )?;
            same(containers(&other).await.len(), 2, "the other session's containers")?;
            said(&*sandbox, "true").await?;
            sandbox.remove().await?;
            Ok(())
        }
    });
    let session = victim.kill()?;
    fixture.runtime.block_on(async {
        fixture.docker.sweep().await?;
        nothing_left(&session).await
    })?;
    outcome
}

fn ended_while_making(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let session = uuid::Uuid::new_v4().to_string();
        let place = fixture.open_in(&session).await?;
        for patience in [1, 3, 6, 12, 25] {
            let _ = tokio::time::timeout(Duration::from_millis(patience), place.sandbox(Vec::new())).await;
        }
        // Whoever opened them has gone away, and none of them is known to anybody.
        fixture.docker.end_session(&session).await?;
        let left = containers(&session).await;
        ensure(left.is_empty(), || format!("still there: {left:?}"))
    })
}

fn half_ours(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let (dead, locks) = (uuid::Uuid::new_v4().to_string(), own_locks()?);
        let all = [("redroom", "1"), ("redroom.session", &dead), ("redroom.locks", &locks), ("redroom.role", "agent")];
        let mut strangers = vec![stranger("redroom-0a1b2c3d-agent", &[]).await?];
        for missing in 0..all.len() {
            let half: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, pair)| *pair).collect();
            strangers.push(stranger("redroom-0a1b2c3d-slot", &half).await?);
        }
        let corpse = stranger("redroom-0a1b2c3d-agent", &all).await?;
        let swept = fixture.docker.sweep().await;
        let mut wrong = Vec::new();
        for stranger in strangers {
            if !stranger_lives(&stranger).await {
                wrong.push(format!("{stranger} was removed"));
            }
            // Gone already where it was taken for ours.
            let _ = remove(&stranger).await;
        }
        if stranger_lives(&corpse).await {
            wrong.push(format!("{corpse} of a dead session was left"));
            remove(&corpse).await?;
        }
        ensure(wrong.is_empty(), || format!("{wrong:?}"))?;
        let swept = swept?;
        ensure(swept.containers.contains(&corpse) && swept.left.is_empty(), || format!("{swept:?}"))
    })
}

fn networks_and_volumes(fixture: &Fixture) -> Result<(), Failed> {
    use bollard::models::{NetworkCreateRequest, VolumeCreateRequest};
    fixture.runtime.block_on(async {
        let docker = bollard::Docker::connect_with_defaults()?;
        let (dead, locks) = (uuid::Uuid::new_v4().to_string(), own_locks()?);
        let owned =
            |session: &str| labels(&[("redroom", "1"), ("redroom.session", session), ("redroom.locks", &locks)]);
        // A dead session's, a live one's, and one that has no session.
        let place = fixture.open().await?;
        let kinds = [("dead", owned(&dead)), ("live", owned(&fixture.session)), ("half", labels(&[("redroom", "1")]))];
        let name = |what: &str| format!("redroom-trial-{what}-{}", &dead[..8]);
        for (what, labels) in kinds {
            let labels = Some(labels);
            // Nothing is reached through it: no bridge is made for a driver that has none.
            let driver = Some("null".to_owned());
            let network =
                NetworkCreateRequest { name: name(what), labels: labels.clone(), driver, ..Default::default() };
            // Engines that have no second network of this kind have nothing to sweep.
            let _ = docker.create_network(network).await;
            docker.create_volume(VolumeCreateRequest { name: Some(name(what)), labels, ..Default::default() }).await?;
        }
        let swept = fixture.docker.sweep().await;
        let mut there = Vec::new();
        for what in ["dead", "live", "half"] {
            if docker.inspect_volume(&name(what)).await.is_ok() {
                there.push(what);
            }
            let _ = docker.remove_volume(&name(what), None::<bollard::query_parameters::RemoveVolumeOptions>).await;
            let network = docker.inspect_network(&name(what), None).await.is_ok();
            let _ = docker.remove_network(&name(what)).await;
            ensure(!network || what != "dead", || "a dead session's network was left".to_owned())?;
        }
        place.slot.close().await?;
        same(there, vec!["live", "half"], "the volumes that are left")?;
        same(swept?.volumes, vec![name("dead")], "what the sweep tells")
    })
}

fn labels(pairs: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    pairs.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
}

/// The id of this user's run folder, by which its sessions are told from others.
fn own_locks() -> Result<String, Failed> {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => std::path::PathBuf::from(folder).join("redroom"),
        None => std::env::temp_dir().join(format!("redroom-{}", rustix::process::geteuid().as_raw())),
    };
    Ok(std::fs::read_to_string(folder.join("sessions/id"))?)
}

const STRANGER: &str = "not-of-redroom";

async fn stranger(name: &str, labelled: &[(&str, &str)]) -> Result<String, Failed> {
    use bollard::models::ContainerCreateBody;
    use bollard::query_parameters::CreateContainerOptionsBuilder;
    let docker = bollard::Docker::connect_with_defaults()?;
    let name = format!("{name}-{}", uuid::Uuid::new_v4().simple());
    let (image, labels) = (Some("debian:bookworm-slim".to_owned()), Some(labels(labelled)));
    let body = ContainerCreateBody { image, labels, ..Default::default() };
    docker.create_container(Some(CreateContainerOptionsBuilder::new().name(&name).build()), body).await?;
    Ok(name)
}

async fn stranger_lives(name: &str) -> bool {
    match bollard::Docker::connect_with_defaults() {
        Ok(docker) => docker.inspect_container(name, None).await.is_ok(),
        Err(_) => false,
    }
}

async fn remove(name: &str) -> Result<(), Failed> {
    let docker = bollard::Docker::connect_with_defaults()?;
    Ok(docker.remove_container(name, None).await?)
}
