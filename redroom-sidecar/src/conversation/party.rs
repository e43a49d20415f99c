//! One client and its connection: what was asked, what was read of it and is in no request, and what its hits tell of.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::domain::labels;
use crate::intake::note_searched;
use crate::search::{Searched, Unsearched, note_unsearched};
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::{Hit, Part};
use crate::witness::Memory;

/// Who talks, and about what.
pub(crate) struct Party {
    pub(crate) slot: Arc<Slot>,
    pub(crate) tenant: Arc<Tenant>,
    /// The address that the client meant.
    pub(crate) meant: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) server_name: Option<String>,
    /// What was read last, for HTTP/1.
    pub(super) memory: Memory,
    pub(super) asked: AtomicBool,
    pub(super) mid_body: AtomicBool,
    /// Where in an HTTP/1 connection the body of the last request began.
    body_start: AtomicU64,
    /// Whether the memory begins where a request does, as far as is known.
    aligned: AtomicBool,
    /// Whether it is no HTTP any more: whoever speaks the other protocol reads it to its end.
    pub(super) given_away: AtomicBool,
    /// What its hits tell of.
    told: Mutex<Told>,
    /// What searches beside its requests came to: through a greeting, a body that nobody took, what is no TLS.
    beside: Mutex<Searched>,
    /// Whether it was cut because patience ended.
    cut: AtomicBool,
}

impl Party {
    pub(crate) fn new(
        slot: Arc<Slot>,
        tenant: Arc<Tenant>,
        meant: SocketAddr,
        tls: Option<Option<String>>,
        memory: Memory,
    ) -> Arc<Self> {
        let (tls, server_name) = (tls.is_some(), tls.flatten());
        let (asked, mid_body) = (AtomicBool::new(false), AtomicBool::new(false));
        let (body_start, aligned) = (AtomicU64::new(0), AtomicBool::new(true));
        Arc::new(Party {
            slot,
            tenant,
            meant,
            tls,
            server_name,
            memory,
            asked,
            mid_body,
            body_start,
            aligned,
            given_away: AtomicBool::new(false),
            told: Mutex::default(),
            beside: Mutex::default(),
            cut: AtomicBool::new(false),
        })
    }

    /// Patience ended before the client had said all. A connection counts once, whoever notices.
    pub(crate) fn note_cut(&self) {
        if !self.cut.swap(true, Ordering::Relaxed) {
            self.tenant.note_cut();
        }
    }

    /// A request has begun.
    pub(super) fn hear(&self, request: &mut Request<Incoming>) {
        self.asked.store(true, Ordering::Relaxed);
        self.memory.understood();
        if request.version() == Version::HTTP_2 {
            return self.memory.retire();
        }
        let aligned = self.aligned.load(Ordering::Relaxed);
        if let Some(target) = self.memory.target_with_fragment().filter(|_| aligned) {
            request.extensions_mut().insert(Fragmented(target));
        }
        if let Some(end) = self.memory.end_of_head() {
            self.memory.forget_before(end);
            self.body_start.store(end, Ordering::Relaxed);
            if let Some(length) = request.body().size_hint().exact().filter(|_| aligned) {
                self.memory.pass_over(end..end.saturating_add(length));
            }
        }
        self.mid_body.store(!request.body().is_end_stream(), Ordering::Relaxed);
    }

    /// A request has come to the end of its body. What remains in memory was read beyond it.
    fn hear_out(&self, body_bytes: u64, chunked: bool) {
        let start = self.body_start.load(Ordering::Relaxed);
        if !chunked {
            self.memory.forget_before(start + body_bytes);
        } else if !self.memory.forget_chunked(start) {
            // Of a long body only the end is remembered: usually nothing came with it.
            self.aligned.store(false, Ordering::Relaxed);
            self.memory.forget_ending_with(b"\r\n\r\n");
        }
        self.mid_body.store(false, Ordering::Relaxed);
    }

    /// The connection goes over to another protocol.
    pub(crate) fn give_away(&self) {
        self.given_away.store(true, Ordering::Relaxed);
        self.memory.retire();
    }

    /// What was read before a place was understood.
    pub(crate) fn understand(&self, place: u64) {
        self.asked.store(true, Ordering::Relaxed);
        self.memory.understood();
        self.memory.forget_before(place);
    }

    /// A hit for what is no request.
    pub(super) fn hit_without_request(&self) -> Hit {
        let Party { tenant, meant, .. } = self;
        let mut hit = tenant.hit_on_address(*meant);
        if let Some(name) = &self.server_name {
            hit.blocked = !tenant.owns(name);
            hit.host = name.clone();
            note_searched(&mut hit, Part::Host, tenant.secrets().search_name(&labels(name)));
        }
        hit.server_name = self.server_name.clone();
        hit
    }

    /// Something that is in no request was searched.
    pub(crate) fn suspect(&self, searched: Searched) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).join(searched);
    }

    /// This is a hit of this connection, searched whole.
    pub(crate) fn tell(&self, hit: &Hit) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.secrets.extend(hit.secrets.iter().map(|found| found.secret.clone()));
        note_unsearched(&mut told.unsearched, hit.unsearched.iter().cloned());
    }

    /// What was sent, but is in no hit: secrets, and what could not be searched. What looks broken does not count: where a
    /// stream was searched as it came, its transport's own marks may have cut what is whole.
    pub(super) fn untold(&self) -> Searched {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        sent.join(self.memory.watched());
        sent.matches.retain(|found| !told.secrets.contains(&*found.secret));
        sent.unsearched
            .retain(|part| !part.why.may_be_cut() && !told.unsearched.iter().any(|known| known.is_like(part)));
        sent
    }

    /// Whether the client said something that was no request, or nothing at all.
    pub(crate) fn left_something(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) || !self.mid_body.load(Ordering::Relaxed) && !self.memory.is_empty()
    }
}

/// What the hits of a connection tell of.
#[derive(Default)]
struct Told {
    /// Names of secrets.
    secrets: HashSet<String>,
    unsearched: Vec<Unsearched>,
}

/// A target with a fragment, as it was sent.
#[derive(Clone)]
pub(crate) struct Fragmented(pub(crate) String);

/// A body that is being read.
pub(crate) struct Reading<'a> {
    party: &'a Party,
    body: Incoming,
    bytes: u64,
    chunked: bool,
    trailers: HeaderMap,
    whole: bool,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(party: &'a Party, body: Incoming) -> Self {
        let chunked = body.size_hint().exact().is_none();
        Reading { party, body, bytes: 0, chunked, trailers: HeaderMap::new(), whole: false }
    }

    /// The next chunk, or `None` when there is no more.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        while let Some(frame) = self.body.frame().await {
            match frame.ok()?.into_data() {
                Ok(data) => {
                    self.bytes += data.len() as u64;
                    return Some(data);
                }
                Err(frame) => self.trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        self.whole = true;
        self.party.hear_out(self.bytes, self.chunked);
        None
    }

    /// The trailers, or `None` if the body was cut off.
    pub(crate) fn trailers(self) -> Option<HeaderMap> {
        self.whole.then_some(self.trailers)
    }
}
