//! The tenant of a slot: one run's scenario in checked form, its numbering, and what of it is still open.
//!
//! Every connection and datagram belongs to the tenant that was in force when it was accepted, and keeps it to its end,
//! however late its bytes are read. Between runs the slot is vacant: a tenant without generation, which plants nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authority::{Authority, AuthorityError};
use crate::dns::FAKE_WEB;
use crate::domain::Domain;
use crate::intake::note_address;
use crate::search::SecretSet;
use crate::wire::{Generation, Hit, ModelEndpoint, Protocol, Scenario};

/// A scenario that cannot be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScenarioError {
    #[error("the fake domain {0:?} is no domain name")]
    FakeDomain(String),
    #[error("the page https://{host}{path} has {what}")]
    Page { host: String, path: String, what: &'static str },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

pub(crate) struct Tenant {
    generation: Option<Generation>,
    moved_in: Instant,
    domain: Option<Domain>,
    catch_all: bool,
    pages: HashMap<String, HashMap<String, Page>>,
    endpoints: Vec<ModelEndpoint>,
    secrets: SecretSet,
    authority: Option<Arc<Authority>>,
    hits: AtomicU64,
    calls: AtomicU64,
    cuts: AtomicU32,
    /// Everything that may still report something of this tenant.
    pub(crate) tasks: TaskTracker,
    /// Ends its connections.
    pub(crate) cut: CancellationToken,
}

/// A planted page, ready to be sent.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
}

impl Tenant {
    /// Before the first run.
    pub(crate) fn nobody() -> Self {
        Tenant {
            generation: None,
            moved_in: Instant::now(),
            domain: None,
            catch_all: false,
            pages: HashMap::new(),
            endpoints: Vec::new(),
            secrets: SecretSet::new(std::iter::empty::<(String, Vec<u8>)>()),
            authority: None,
            hits: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            cuts: AtomicU32::new(0),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
        }
    }

    /// A run moves in after `previous`, whose authority is kept if it is the same: its leaves are minted already.
    pub(crate) fn move_in(
        generation: Generation,
        scenario: Scenario,
        previous: &Tenant,
    ) -> Result<Self, ScenarioError> {
        let domain = Domain::new(&scenario.fake_domain)
            .ok_or_else(|| ScenarioError::FakeDomain(scenario.fake_domain.clone()))?;
        let authority = match &previous.authority {
            Some(known) if known.is(&scenario.authority) => known.clone(),
            _ => Arc::new(Authority::load(&scenario.authority)?),
        };
        let mut pages: HashMap<String, HashMap<String, Page>> = HashMap::new();
        for planted in scenario.pages {
            let bad = |what| ScenarioError::Page { host: planted.host.clone(), path: planted.path.clone(), what };
            let page = Page {
                status: StatusCode::from_u16(planted.status).map_err(|_| bad("a status that is none"))?,
                content_type: HeaderValue::from_str(&planted.content_type)
                    .map_err(|_| bad("a content type that is no header value"))?,
                body: planted.body.0.into(),
            };
            pages.entry(planted.host.to_ascii_lowercase()).or_default().insert(planted.path, page);
        }
        Ok(Tenant {
            generation: Some(generation),
            domain: Some(domain),
            catch_all: scenario.catch_all,
            pages,
            endpoints: scenario.model_endpoints,
            secrets: SecretSet::new(scenario.secrets.into_iter().map(|secret| (secret.name, secret.value.0))),
            authority: Some(authority),
            ..Tenant::nobody()
        })
    }

    /// Whoever comes after this tenant and before the next fits no run. TLS still works and its secrets are still looked
    /// for, so that a straggler is seen for what it is.
    pub(crate) fn vacated(&self) -> Self {
        Tenant { secrets: self.secrets.clone(), authority: self.authority.clone(), ..Tenant::nobody() }
    }

    pub(crate) fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Milliseconds since it moved in.
    pub(crate) fn age_ms(&self) -> u64 {
        u64::try_from(self.moved_in.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a host, lower case, lies in its fake domain.
    pub(crate) fn owns(&self, host: &str) -> bool {
        self.domain.as_ref().is_some_and(|domain| domain.holds(host))
    }

    /// The same for a name that is cut into labels.
    pub(crate) fn owns_labels(&self, labels: &[Vec<u8>]) -> bool {
        self.domain.as_ref().is_some_and(|domain| domain.holds_labels(labels.iter().map(Vec::as_slice)))
    }

    /// A hit that names nobody but an address. Inside are those that names of the fake domain lead to.
    pub(crate) fn hit_on_address(&self, meant: SocketAddr) -> Hit {
        let address = meant.ip().to_canonical();
        let blocked = !FAKE_WEB.contains(&address);
        let mut hit = Hit::new(self.next_hit(), self.age_ms(), Protocol::Other, address.to_string(), meant, blocked);
        note_address(&mut hit.secrets, self.secrets(), meant.ip());
        hit
    }

    /// Whether every other host is answered, too.
    pub(crate) fn catches_all(&self) -> bool {
        self.catch_all
    }

    pub(crate) fn page(&self, host: &str, path_and_query: &str) -> Option<&Page> {
        self.pages.get(host)?.get(path_and_query)
    }

    /// Whether its agent may send this to its model: compared as bytes, because whatever normalizes differently from the
    /// upstream is a way around.
    pub(crate) fn allows_model(&self, method: &str, path: &str) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.method == method && endpoint.path == path)
    }

    pub(crate) fn secrets(&self) -> &SecretSet {
        &self.secrets
    }

    pub(crate) fn authority(&self) -> Option<&Arc<Authority>> {
        self.authority.as_ref()
    }

    /// The next hit's number, from 1.
    pub(crate) fn next_hit(&self) -> u64 {
        self.hits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The next model call's number, from 1.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that a connection was cut because patience ended.
    pub(crate) fn note_cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were cut.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::Relaxed)
    }
}
