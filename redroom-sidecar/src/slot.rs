//! What all parts of a sidecar share: who lives in the slot, and the ways to the harness.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::link::Link;
use crate::reports::Reports;
use crate::tenant::Tenant;

/// How many requests to the fake web may be under way at once; each may keep 64 KiB of a body.
const REQUESTS: usize = 256;
const OTHER_REQUESTS: usize = 64;

/// How many model requests may be with the harness at once, however many a connection carries: as many as the relay has
/// places, so that the link has room for the hook's beside them.
pub(crate) const MODEL_REQUESTS: usize = 64;

pub(crate) struct Slot {
    tenant: RwLock<Arc<Tenant>>,
    pub(crate) reports: Reports,
    pub(crate) link: Link,
    /// Ends every task of this sidecar.
    pub(crate) stop: CancellationToken,
    pub(crate) requests: Semaphore,
    /// The same for the fake web's answers on other ports: a flood there stops nobody here.
    pub(crate) other_requests: Semaphore,
    pub(crate) model_requests: Semaphore,
}

impl Slot {
    pub(crate) fn new(reports: Reports, link: Link, stop: CancellationToken) -> Self {
        Slot {
            tenant: RwLock::new(Arc::new(Tenant::nobody())),
            reports,
            link,
            stop,
            requests: Semaphore::new(REQUESTS),
            other_requests: Semaphore::new(OTHER_REQUESTS),
            model_requests: Semaphore::new(MODEL_REQUESTS),
        }
    }

    /// Who lives here now.
    pub(crate) fn tenant(&self) -> Arc<Tenant> {
        self.tenant.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, what arrives belongs to this tenant.
    pub(crate) fn let_to(&self, tenant: Tenant) {
        *self.tenant.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tenant);
    }

    /// Runs a task that may still report something of a tenant: a drain waits for it.
    pub(crate) fn spawn(&self, tenant: &Tenant, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        tenant.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }
}
