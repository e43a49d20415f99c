//! A slot's next helper, made while the present sandbox lives: to join control groups takes the kernel longer than to make a sandbox.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::channel::Channel;
use super::held::Holder;
use super::making::Helper;
use super::sandbox::Resident;
use crate::backend::SandboxLimits;
use crate::error::Result;

/// Where a slot's helpers come from.
#[derive(Debug)]
pub(super) struct Helpers {
    keeper: Arc<Channel>,
    resident: Resident,
    holder: Holder,
    /// Locked while it is made.
    next: Mutex<Option<Helper>>,
    ending: CancellationToken,
}

impl Helpers {
    pub(super) fn new(
        keeper: Arc<Channel>,
        resident: Resident,
        holder: Holder,
        ending: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Helpers { keeper, resident, holder, next: Mutex::default(), ending })
    }

    /// The next helper: the one that was made ahead, where that is under these limits; else a new one.
    pub(super) async fn take(&self, limits: &SandboxLimits) -> Result<Helper> {
        let ahead = self.next.lock().await.take();
        match ahead {
            Some(helper) if helper.fits(limits) => Ok(helper),
            // What it has is removed while the new one starts.
            _ => self.start(limits).await,
        }
    }

    /// Makes one for the sandbox after this one, which will most likely have the same limits.
    pub(super) async fn prepare(&self, limits: SandboxLimits) {
        let mut next = self.next.lock().await;
        if next.is_some() || self.ending.is_cancelled() {
            return;
        }
        match self.start(&limits).await {
            Ok(helper) => *next = Some(helper),
            // Whoever needs one tries again, and hears why it fails.
            Err(error) => tracing::debug!(%error, "no helper could be made ahead"),
        }
    }

    /// Ends the one that was made ahead. Nobody makes one after the slot has begun to end.
    pub(super) async fn dismiss(&self) {
        let ahead = self.next.lock().await.take();
        if let Some(helper) = ahead {
            helper.end().await;
        }
    }

    async fn start(&self, limits: &SandboxLimits) -> Result<Helper> {
        Helper::start(&self.keeper, self.resident, &self.holder, limits).await
    }
}
