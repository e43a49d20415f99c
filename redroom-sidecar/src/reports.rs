//! The way of every observation to the harness: one bounded queue, in order.

use tokio::sync::mpsc;

use crate::tenant::Tenant;
use crate::wire::{Hit, ModelRequest, Report};

/// How many reports may wait for the link. A report weighs a few hundred KiB at most, so that the queue is bounded in
/// bytes, too.
const WAITING: usize = 64;

/// The writing end. When the queue is full, whoever reports waits, and the agent behind it: observations are never lost
/// for want of room.
#[derive(Clone)]
pub(crate) struct Reports(mpsc::Sender<Report>);

impl Reports {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Reports(sender), receiver)
    }

    /// Queues a report. That the link is lost is noticed where the link is kept, and ends everything.
    pub(crate) async fn send(&self, report: Report) {
        let _ = self.0.send(report).await;
    }

    /// What is known of a hit.
    pub(crate) async fn hit(&self, tenant: &Tenant, hit: &Hit) {
        self.send(Report::Hit { generation: tenant.generation(), hit: Box::new(hit.clone()) }).await;
    }

    /// What is known of a model request.
    pub(crate) async fn model_request(&self, tenant: &Tenant, request: &ModelRequest) {
        self.send(Report::ModelRequest { generation: tenant.generation(), request: Box::new(request.clone()) }).await;
    }
}
