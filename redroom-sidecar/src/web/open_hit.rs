//! A hit whose body is still coming: on record from its first line, searched as it streams, closed whatever happens.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::KEPT;
use crate::tenancy::{Tenancy, add};
use crate::uplink::Uplink;
use crate::wire::{Hit, Octets, Part, Report};

/// A hit that is on record and may still grow. One that is dropped before it is closed was cut off; that is reported too.
pub(super) struct OpenHit {
    pub(super) hit: Hit,
    tenancy: Arc<Tenancy>,
    uplink: Uplink,
    closed: bool,
}

impl OpenHit {
    /// Puts the hit on record.
    pub(super) async fn report(tenancy: Arc<Tenancy>, uplink: Uplink, hit: Hit) -> Self {
        let open = OpenHit { hit, tenancy, uplink, closed: false };
        open.send().await;
        open
    }

    /// Reads and searches the body to its end, however long it is; what is found is reported at once.
    pub(super) async fn read(&mut self, mut body: Incoming) {
        let mut scanner = self.tenancy.secrets().scanner();
        let mut known = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    if let Some(data) = frame.data_ref() {
                        scanner.feed(data);
                        self.keep(data);
                    } else if let Some(trailers) = frame.trailers_ref() {
                        self.keep_trailers(trailers);
                    }
                }
                Err(error) => {
                    self.hit.fault = Some(format!("the body broke off: {error}"));
                    add(&mut self.hit.secrets, Part::Body, scanner.matches());
                    self.closed = true;
                    self.send().await;
                    return;
                }
            }
            if scanner.matches().len() > known {
                known = scanner.matches().len();
                add(&mut self.hit.secrets, Part::Body, scanner.matches());
                self.send().await;
            }
        }
        add(&mut self.hit.secrets, Part::Body, &scanner.finish());
        self.hit.complete = true;
    }

    /// Reports the hit with the status of its answer, for the last time.
    pub(super) async fn close(mut self, status: u16) {
        self.hit.status = Some(status);
        self.closed = true;
        self.send().await;
    }

    fn keep(&mut self, data: &[u8]) {
        self.hit.body_bytes += data.len() as u64;
        let room = KEPT - self.hit.body.len().min(KEPT);
        self.hit.body.0.extend_from_slice(&data[..data.len().min(room)]);
        self.hit.truncated = self.hit.body_bytes > self.hit.body.len() as u64;
    }

    fn keep_trailers(&mut self, trailers: &http::HeaderMap) {
        let trailers: Vec<(String, Octets)> = trailers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), Octets(value.as_bytes().to_vec())))
            .collect();
        self.tenancy.search_headers(&trailers, &mut self.hit.secrets);
        self.hit.headers.extend(trailers);
    }

    async fn send(&self) {
        self.uplink.report(&report(&self.tenancy, &self.hit)).await;
    }
}

fn report(tenancy: &Tenancy, hit: &Hit) -> Report {
    Report::Hit { generation: tenancy.generation(), hit: Box::new(hit.clone()) }
}

impl Drop for OpenHit {
    fn drop(&mut self) {
        if !self.closed {
            self.hit.fault.get_or_insert_with(|| "the connection ended in mid-request".to_owned());
            let (uplink, last) = (self.uplink.clone(), report(&self.tenancy, &self.hit));
            // Part of the tenancy: its drain waits for this.
            self.tenancy.tasks.spawn(async move { uplink.report(&last).await });
        }
    }
}
