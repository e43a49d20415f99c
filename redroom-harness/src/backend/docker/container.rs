//! One container of ours: made, started, ended. Removed when it is dropped, too, as far as a runtime is there to do it; the sweep does
//! the rest.

use std::sync::atomic::{AtomicBool, Ordering};

use bollard::container::AttachContainerResults;
use bollard::models::{ContainerCreateBody, ContainerState, HostConfig, HostConfigLogConfig, ResourcesUlimits};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptionsBuilder, KillContainerOptions, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use tokio::runtime::Handle;

use super::engine::{Engine, unless};
use crate::error::{Error, Result};

/// How often a container is asked to be frozen.
const PAUSES: usize = 3;

/// A container that this process has made.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) engine: Engine,
    pub(crate) id: String,
    removed: AtomicBool,
}

impl Container {
    /// In a task of its own: a caller that is given up meanwhile would leave a container that nobody knows of.
    pub(crate) async fn create(engine: &Engine, name: &str, body: ContainerCreateBody) -> Result<Self> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let (engine, tasks) = (engine.clone(), engine.tasks.clone());
        let making = tasks.spawn(async move {
            let making = engine.docker.create_container(Some(options), body);
            let id = engine.call("make a container", making).await?.id;
            Ok(Container { engine, id, removed: AtomicBool::new(false) })
        });
        making
            .await
            .unwrap_or_else(|error| Err(Error::backend("docker_lost", format!("cannot make a container: {error}"))))
    }

    /// Connects its standard streams. Before the start, or what it prints first is lost.
    pub(crate) async fn attach(&self, output: bool) -> Result<AttachContainerResults> {
        let options =
            AttachContainerOptions { stream: true, stdin: true, stdout: output, stderr: output, ..Default::default() };
        let attaching = self.engine.docker.attach_container(&self.id, Some(options));
        self.engine.call("attach to a container", attaching).await
    }

    pub(crate) async fn start(&self) -> Result<()> {
        let starting = self.engine.docker.start_container(&self.id, None::<StartContainerOptions>);
        self.engine.call("start a container", starting).await
    }

    /// Its state; `None` if there is no such container any more.
    pub(crate) async fn state(&self) -> Result<Option<ContainerState>> {
        let asking = self.engine.docker.inspect_container(&self.id, None);
        let inspected = unless(&[404], self.engine.call("look at a container", asking).await)?;
        Ok(inspected.map(|inspected| inspected.state.unwrap_or_default()))
    }

    /// Stops its processes where they stand. A container that has ended stays so, and one that cannot be frozen is ended: its files
    /// stay, and nothing in it changes them any more.
    pub(crate) async fn pause(&self) -> Result<()> {
        const WHAT: &str = "freeze a sandbox";
        let mut failed = match self.engine.call(WHAT, self.engine.docker.pause_container(&self.id)).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        for _ in 1..PAUSES {
            // Paused already, ended already, or ending while we asked: the state says it better than the status.
            match self.state().await? {
                Some(state) if state.running == Some(true) && state.paused != Some(true) => {}
                Some(_) => return Ok(()),
                None => return Err(failed),
            }
            // The kernel does not get hold of every process at once where there are many, or the machine is busy.
            match self.engine.call(WHAT, self.engine.docker.pause_container(&self.id)).await {
                Ok(()) => return Ok(()),
                Err(error) => failed = error,
            }
        }
        tracing::warn!(error = %failed, "a sandbox that cannot be frozen is ended");
        self.kill().await
    }

    /// Kills its first process, and with it the rest. Its files stay.
    pub(crate) async fn kill(&self) -> Result<()> {
        let killing = self.engine.docker.kill_container(&self.id, None::<KillContainerOptions>);
        unless(&[404, 409], self.engine.call("kill a container", killing).await).map(drop)
    }

    /// Removes it, running, paused or dead. Idempotent.
    pub(crate) async fn remove(&self) -> Result<()> {
        if self.removed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let removed = remove(&self.engine, &self.id).await;
        if removed.is_err() {
            self.removed.store(false, Ordering::Relaxed);
        }
        removed.map(drop)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.removed.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let (engine, id) = (self.engine.clone(), std::mem::take(&mut self.id));
            let tasks = engine.tasks.clone();
            let removal = async move {
                if let Err(error) = remove(&engine, &id).await {
                    tracing::warn!(%error, container = id, "a container was left for the next sweep");
                }
            };
            tasks.spawn_on(removal, &runtime);
        }
    }
}

/// Removes a container by force; `false` if somebody else has, or is about to.
pub(crate) async fn remove(engine: &Engine, id: &str) -> Result<bool> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let removing = engine.docker.remove_container(id, Some(options));
    Ok(unless(&[404, 409], engine.call("remove a container", removing).await)?.is_some())
}

/// What every container of ours has: no capability, no way to get one, no logging, no init, its own limits.
pub(crate) fn confined(memory: u64, processes: u32, ulimits: &[(&str, u64)]) -> HostConfig {
    let memory = i64::try_from(memory).unwrap_or(i64::MAX);
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        memory: Some(memory),
        memory_swap: Some(memory),
        pids_limit: Some(processes.into()),
        ulimits: Some(ulimits.iter().map(|(name, value)| ulimit(name, *value)).collect()),
        // What an agent prints may hold secrets, and would lie in files of the host.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        init: Some(false),
        ..Default::default()
    }
}

fn ulimit(name: &str, value: u64) -> ResourcesUlimits {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(value), hard: Some(value) }
}
