//! What a sidecar says to the harness, in frames, against a reader that has all of them at once.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::Lease;
use redroom_sidecar::wire::frame::REPORT_LIMIT;
use redroom_sidecar::wire::{Generation, Hit, ModelRequest, Report, VERSION};

use super::draw::chunks;
use crate::error::Error;
use crate::evidence::Log;
use crate::link::{Reports, Shared, Tenant};
use crate::model::{Body, ModelCall};

/// The generation of the run that is in the slot.
const PRESENT: Generation = Generation(7);

pub(super) fn run(sent: &[u8]) {
    let heard = Arc::new(Heard::default());
    let nobody = Arc::new(Mutex::new(Vec::new()));
    let unattributed = nobody.clone();
    let (shared, progress) =
        Shared::new(Lease::default(), Arc::new(move |hit: Hit| unattributed.lock().unwrap().push(hit.id)));
    shared.set_tenant(Some((PRESENT, heard.clone())));
    let mut reports = Reports::default();
    let read = chunks(sent).into_iter().try_for_each(|chunk| reports.feed(chunk, &shared));

    let expected = expected(sent);
    assert_eq!(*heard.order.lock().unwrap(), expected.tenant);
    assert_eq!(*nobody.lock().unwrap(), expected.nobody);
    assert_eq!(read.is_err(), expected.is_broken, "{read:?}");
    let why = progress.borrow().other_ports_unseen.clone();
    assert!(why.is_none_or(|why| why.chars().count() <= 500));
}

#[derive(Default)]
struct Expected {
    tenant: Vec<(char, u64)>,
    nobody: Vec<u64>,
    is_broken: bool,
}

/// Frame by frame, as the protocol says.
fn expected(mut sent: &[u8]) -> Expected {
    let mut expected = Expected::default();
    while let Some((length, rest)) = sent.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > REPORT_LIMIT {
            expected.is_broken = true;
            break;
        }
        let Some((frame, after)) = rest.split_at_checked(length) else { break };
        sent = after;
        let present = Some(PRESENT);
        match serde_json::from_slice(frame) {
            Ok(Report::Hit { generation, hit }) if generation == present => expected.tenant.push(('h', hit.id)),
            Ok(Report::Hit { hit, .. }) => expected.nobody.push(hit.id),
            Ok(Report::ModelRequest { generation, request }) if generation == present => {
                expected.tenant.push(('m', request.id));
            }
            Ok(Report::Fault { code, .. })
                if code
                    .chars()
                    .filter(|c| c.is_ascii_lowercase() || *c == '_')
                    .take(40)
                    .eq("scenario_refused".chars()) =>
            {
                expected.is_broken = true;
            }
            Ok(Report::Fault { generation, .. }) if generation == present => expected.tenant.push(('f', 0)),
            Ok(Report::Ready { version, .. }) if version != VERSION => expected.is_broken = true,
            Ok(_) => {}
            Err(_) => expected.is_broken = true,
        }
        if expected.is_broken {
            break;
        }
    }
    expected
}

/// A run that keeps what it is told.
#[derive(Default)]
struct Heard {
    order: Mutex<Vec<(char, u64)>>,
    hits: Mutex<Log<Hit>>,
}

#[async_trait]
impl Tenant for Heard {
    fn hit(&self, hit: Hit) {
        self.order.lock().unwrap().push(('h', hit.id));
        let mut hits = self.hits.lock().unwrap();
        hits.put(hit.id, hit.clone());
        // What came last is there as it came, unless newer ones have pushed it out.
        assert!(hits.get(hit.id).is_none_or(|kept| kept.secrets == hit.secrets));
        assert!(hits.entries().is_sorted_by_key(|hit| hit.id));
        let _ = hits.dropped();
    }

    fn model_request(&self, request: ModelRequest) {
        self.order.lock().unwrap().push(('m', request.id));
    }

    fn fault(&self, error: Error) {
        self.order.lock().unwrap().push(('f', 0));
        assert!(error.code().len() <= 40 && error.code().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        assert!(error.detail().chars().count() <= 2000);
    }

    async fn model(&self, _: u64, _: ModelCall) -> http::Response<Body> {
        unreachable!("nobody asks")
    }

    async fn hook(&self, _: Bytes) -> Bytes {
        unreachable!("nobody asks")
    }

    fn run(&self) -> &str {
        "run"
    }
}
