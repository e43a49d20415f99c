//! The limits of one sandbox, and the removal of their control groups: however the sandbox comes to its end, or does not come to be.

use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Pid;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::limits::{Hierarchies, Limiter};
use crate::backend::SandboxLimits;
use crate::error::{Error, Result};

/// A session as its sandboxes' limits know it: whose the groups are, where they can be made, who waits for their removal.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    session: String,
    hierarchies: Arc<Hierarchies>,
    removals: TaskTracker,
}

/// What holds a sandbox. It lets go when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    limiter: Arc<Limiter>,
    removals: TaskTracker,
    runtime: Handle,
    is_let_go: AtomicBool,
}

impl Holder {
    pub(super) fn new(session: &str, hierarchies: Arc<Hierarchies>, removals: TaskTracker) -> Self {
        Holder { session: session.to_owned(), hierarchies, removals }
    }

    /// Makes the groups of one sandbox. Waits for files.
    pub(super) async fn prepare(&self, limits: &SandboxLimits) -> Result<Held> {
        let (holder, limits, runtime) = (self.clone(), limits.clone(), Handle::current());
        let name = uuid::Uuid::new_v4().to_string();
        blocking(move || {
            let limiter = Limiter::prepare(&holder.hierarchies, &limits, &holder.session, &name)?;
            let is_let_go = AtomicBool::new(false);
            Ok(Held { limiter: Arc::new(limiter), removals: holder.removals, runtime, is_let_go })
        })
        .await
    }
}

impl Held {
    /// Puts a process under them, and gives the doors that it must enter by itself. The kernel may have every processor come by first.
    pub(super) async fn admit(&self, pid: Pid) -> Result<Vec<File>> {
        let limiter = self.limiter.clone();
        blocking(move || limiter.admit(pid)).await
    }

    /// Has the groups removed, with whatever is still in them: nobody has to wait for that but the session's end.
    pub(super) fn let_go(&self) -> Option<JoinHandle<()>> {
        if !self.limiter.has_groups() || self.is_let_go.swap(true, Ordering::Relaxed) {
            return None;
        }
        let limiter = self.limiter.clone();
        let close = move || {
            if let Err(error) = limiter.close() {
                tracing::warn!(%error, "the next start will sweep it");
            }
        };
        Some(self.removals.spawn_blocking_on(close, &self.runtime))
    }
}

impl Deref for Held {
    type Target = Limiter;

    fn deref(&self) -> &Limiter {
        &self.limiter
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

/// What waits for files or the kernel, on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::backend("sandbox_failed", format!("cannot work on a sandbox: {error}"))),
    }
}
