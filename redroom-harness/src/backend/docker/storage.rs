//! How much of the engine's disk a sandbox may take. An engine can bound that itself on few file systems only, so it is watched from
//! outside: what takes too much is ended, and its files stay, as evidence, until the run's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::query_parameters::InspectContainerOptionsBuilder;
use tokio::time::{Instant, sleep};

use super::container::Container;
use crate::error::Result;

/// The most that a sandbox may take, in bytes: as much as is collected of one place.
pub(crate) const LIMIT: u64 = 4 * 1024 * 1024 * 1024;
/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// The engine counts every file: of its time, looking takes so much and no more.
const SHARE: u32 = 10;

/// Whether a sandbox was ended because it took too much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Full(Arc<AtomicBool>);

impl Full {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Watches a container to its end.
pub(crate) async fn watch(container: Arc<Container>, full: Full) {
    let mut pause = LOOK;
    loop {
        sleep(pause).await;
        let asked = Instant::now();
        match taken(&container).await {
            Ok(Some(taken)) if taken > LIMIT => {
                full.0.store(true, Ordering::Relaxed);
                if let Err(error) = container.kill().await {
                    tracing::warn!(%error, "a sandbox that fills the disk could not be ended");
                }
                return;
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            // Whoever uses it will say so.
            Err(error) => tracing::debug!(%error, "it is not known how much of the disk a sandbox has taken"),
        }
        pause = LOOK.max(asked.elapsed() * SHARE);
    }
}

/// What a container has written; `None` if there is no such container any more.
async fn taken(container: &Container) -> Result<Option<u64>> {
    let engine = &container.engine;
    let options = InspectContainerOptionsBuilder::new().size(true).build();
    let asking = engine.docker.inspect_container(&container.id, Some(options));
    let found = super::engine::unless(&[404], engine.call("look at a sandbox's size", asking).await)?;
    Ok(found.map(|found| found.size_rw.and_then(|size| u64::try_from(size).ok()).unwrap_or(0)))
}
