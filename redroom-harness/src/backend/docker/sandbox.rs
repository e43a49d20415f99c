//! An agent's container: filled before it starts, held open by a process of ours, emptied from outside.

use std::sync::Arc;

use async_trait::async_trait;
use bollard::container::AttachContainerResults;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use redroom_sidecar::Lease;
use tokio::io::AsyncWriteExt;
use tokio_util::task::AbortOnDropHandle;

use super::collect;
use super::container::{Container, confined};
use super::engine::EngineFacts;
use super::exec::Processes;
use super::labels::{LOCKS, ROLE, RUN, Role, SESSION, SLOT, container_name, labels};
use super::placement::{self, Placement};
use super::storage::{self, Full};
use super::{upload, waiter};
use crate::backend::session::Session;
use crate::backend::{Exec, ExecEnd, Fate, PlacedKind, Sandbox, SandboxLimits, SandboxSpec, Sink, Visitor, WORKSPACE};
use crate::error::Result;

/// Process 1's user: not the agent's, so that the agent can neither signal nor trace it.
const WAITER_USER: &str = "1001:1001";

/// A container with an agent's files in it, and the attachment that keeps it alive.
pub(crate) struct DockerSandbox {
    container: Arc<Container>,
    processes: Processes,
    full: Full,
    /// Stopped when the sandbox is: what is frozen takes nothing more.
    watch: AbortOnDropHandle<()>,
    /// Holds the attachment, whose end is process 1's end.
    _renewal: AbortOnDropHandle<()>,
}

/// Where a sandbox goes.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) slot: &'a Container,
    pub(crate) session: &'a Session,
    pub(crate) number: u32,
}

pub(crate) async fn open(place: Place<'_>, spec: SandboxSpec) -> Result<DockerSandbox> {
    let engine = &place.slot.engine;
    let body = container_body(place, &spec, engine.facts());
    let plan = placement::plan(spec.entries, waiter::executable(engine.facts().machine, place.session.lease().end()))?;
    let container = Container::create(engine, &container_name(place.session.id(), Role::Agent), body).await?;
    let (attachment, ()) = tokio::try_join!(container.attach(false), place_all(&container, plan))?;
    container.start().await?;
    let container = Arc::new(container);
    let renewal = AbortOnDropHandle::new(tokio::spawn(renew(attachment, place.session.lease())));
    let full = Full::default();
    let watch = AbortOnDropHandle::new(tokio::spawn(storage::watch(container.clone(), full.clone())));
    let processes = Processes::of(container.clone(), full.clone());
    Ok(DockerSandbox { processes, container, full, watch, _renewal: renewal })
}

/// Keeps process 1 waiting: a byte is a sign of life.
async fn renew(mut attachment: AttachContainerResults, lease: Lease) {
    let mut renewals = tokio::time::interval(lease.renewal());
    renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        renewals.tick().await;
        // One that cannot be renewed ends; whoever uses it notices.
        if attachment.input.write_all(&[0]).await.is_err() || attachment.input.flush().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Uploads everything in one go.
async fn place_all(container: &Container, plan: Vec<Placement>) -> Result<()> {
    let body = upload::archive(move |archive| {
        plan.into_iter().try_for_each(|placed| match placed.kind {
            PlacedKind::Folder => archive.folder(&placed.path, placed.access),
            PlacedKind::File(content) => archive.file(&placed.path, placed.access, &content),
        })
    });
    let options = UploadToContainerOptionsBuilder::new().path("/").build();
    let uploading =
        container.engine.docker.upload_to_container(&container.id, Some(options), bollard::body_try_stream(body));
    container.engine.call("place files in a sandbox", uploading).await
}

#[async_trait]
impl Sandbox for DockerSandbox {
    async fn exec(&self, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd> {
        self.processes.run(exec, sink).await
    }

    fn best_effort(&self) -> Vec<String> {
        self.container.engine.facts().enforced.best_effort()
    }

    async fn read_file(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        collect::read_file(&self.container.engine, &self.container.id, path, limit).await
    }

    async fn freeze(&self) -> Result<()> {
        self.watch.abort();
        self.container.stop_where_it_stands().await
    }

    async fn fate(&self) -> Result<Fate> {
        let Some(state) = self.container.state().await? else {
            let detail = "the container was removed by somebody else".to_owned();
            return Ok(Fate::Dead { exit_code: None, memory_exceeded: false, detail });
        };
        let memory_exceeded = state.oom_killed == Some(true);
        if state.running == Some(true) {
            return Ok(Fate::Alive { memory_exceeded });
        }
        if self.full.is_so() {
            let detail = format!("it had taken more than {} GiB of the disk, and was ended", storage::LIMIT >> 30);
            return Ok(Fate::Dead { exit_code: state.exit_code, memory_exceeded: false, detail });
        }
        let detail = match (memory_exceeded, state.error.filter(|error| !error.is_empty())) {
            (_, Some(error)) => format!("the engine says: {error}"),
            (true, None) => "its first process ended after something in it was killed for memory".to_owned(),
            (false, None) => "its first process ended".to_owned(),
        };
        Ok(Fate::Dead { exit_code: state.exit_code, memory_exceeded, detail })
    }

    async fn collect(&self, roots: &[String], visitor: &mut dyn Visitor) -> Result<()> {
        for root in roots {
            collect::collect(&self.container.engine, &self.container.id, root, visitor).await?;
        }
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.container.remove().await
    }
}

fn container_body(place: Place<'_>, spec: &SandboxSpec, engine: &EngineFacts) -> ContainerCreateBody {
    let number = place.number.to_string();
    ContainerCreateBody {
        image: Some(spec.base.0.clone()),
        user: Some(WAITER_USER.to_owned()),
        entrypoint: Some(vec![waiter::PATH.to_owned()]),
        cmd: Some(Vec::new()),
        working_dir: Some(WORKSPACE.to_owned()),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        labels: Some(labels([
            (SESSION, place.session.id()),
            (LOCKS, place.session.locks()),
            (RUN, &spec.run),
            (ROLE, Role::Agent.word()),
            (SLOT, &number),
        ])),
        host_config: Some(host_config(&place.slot.id, &spec.limits, engine)),
        ..Default::default()
    }
}

/// The root stays writable: uploads and collection must see one tree, and what a user without capabilities can change is its own.
/// Not removed by itself: the files of a container that died are evidence.
fn host_config(slot: &str, limits: &SandboxLimits, engine: &EngineFacts) -> HostConfig {
    // The engine refuses more processors than there are.
    let cpus = limits.cpus.clamp(0.01, f64::from(engine.processors));
    let ulimits = [("fsize", limits.file_size), ("nofile", limits.open_files), ("core", 0)];
    HostConfig {
        network_mode: Some(format!("container:{slot}")),
        nano_cpus: Some((cpus * 1e9) as i64),
        auto_remove: Some(false),
        ipc_mode: Some("private".to_owned()),
        ..confined(limits.memory, limits.pids, &ulimits)
    }
}
