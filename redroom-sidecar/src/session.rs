//! The session with the harness: reports go up, commands come down and are obeyed one after the other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either};
use tokio::sync::mpsc;

use crate::app::ServeError;
use crate::door::Doors;
use crate::drain::drain;
use crate::link::SESSION;
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::frame::{self, COMMAND_LIMIT, Decoder};
use crate::wire::{Command, Generation, Report, Scenario};

/// Obeys until the harness ends the session.
pub(crate) async fn run(slot: &Arc<Slot>, doors: &Doors, reports: mpsc::Receiver<Report>) -> Result<(), ServeError> {
    let reports = Either::Left(ReportStream(reports));
    let response = slot.link.post(SESSION, HeaderMap::new(), reports).await.map_err(ServeError::LinkLost)?;
    if !response.status().is_success() {
        return Err(ServeError::Refused(response.status().as_u16()));
    }
    let mut commands = response.into_body();
    let mut decoder = Decoder::new(COMMAND_LIMIT);
    while let Some(frame) = commands.frame().await {
        let frame = frame.map_err(ServeError::LinkLost)?;
        decoder.push(frame.data_ref().map_or(&[], |data| data));
        while let Some(command) = decoder.next_frame()? {
            obey(slot, doors, command).await?;
        }
    }
    Ok(())
}

async fn obey(slot: &Arc<Slot>, doors: &Doors, command: Command) -> Result<(), ServeError> {
    match command {
        Command::Begin { generation, scenario } => begin(slot, generation, *scenario).await,
        Command::End { generation, patience_ms } => {
            let tenant = slot.tenant();
            if tenant.generation() != Some(generation) {
                return Err(ServeError::Command("end of a run that does not live here"));
            }
            let cut = drain(slot, doors, &tenant, Duration::from_millis(patience_ms)).await;
            slot.reports.send(Report::Drained { generation, cut }).await;
            Ok(())
        }
        // That it came is all that there is to it.
        Command::Renew => Ok(()),
    }
}

async fn begin(slot: &Slot, generation: Generation, scenario: Scenario) -> Result<(), ServeError> {
    let previous = slot.tenant();
    if previous.generation().is_some() {
        return Err(ServeError::Command("begin of a run while another lives here"));
    }
    let report = match Tenant::move_in(generation, scenario, &previous) {
        Ok(tenant) => {
            slot.let_to(tenant);
            Report::Begun { generation }
        }
        Err(error) => Report::Fault {
            generation: Some(generation),
            code: "scenario_refused".to_owned(),
            detail: error.to_string(),
        },
    };
    slot.reports.send(report).await;
    Ok(())
}

/// The session's upward half.
pub(crate) struct ReportStream(mpsc::Receiver<Report>);

impl Body for ReportStream {
    type Data = Bytes;
    type Error = serde_json::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        self.0.poll_recv(cx).map(|report| report.map(|report| frame::encode(&report).map(Frame::data)))
    }
}
