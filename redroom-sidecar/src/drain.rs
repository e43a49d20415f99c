//! The end of a run in its slot: everything that its processes left in queues and sockets is read before the next run may
//! move in. They are gone by now, so that their sockets come to an end by themselves; what does not within the patience is
//! cut.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::door::Doors;
use crate::slot::Slot;
use crate::tenant::Tenant;

/// Empties the slot of a tenant. Returns how many connections were cut.
pub(crate) async fn drain(slot: &Arc<Slot>, doors: &Doors, tenant: &Arc<Tenant>, patience: Duration) -> u32 {
    tenant.tasks.close();
    let settled = timeout(patience, async {
        // Twice: while the first connections came to their end, the kernel may have finished a late one.
        for _ in 0..2 {
            doors.empty().await;
            tenant.tasks.wait().await;
        }
    })
    .await;
    if settled.is_err() {
        tenant.cut.cancel();
        doors.empty().await;
        tenant.tasks.wait().await;
    }
    slot.let_to(tenant.vacated());
    tenant.cuts()
}
