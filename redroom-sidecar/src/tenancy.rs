//! Who lives in the slot: a run's scenario in force, with everything that is counted for it.
//!
//! Whatever arrives is credited to the tenancy in force when its connection was accepted, and to no other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authority::{Authority, AuthorityError};
use crate::search::{Match, SecretSet};
use crate::wire::{Found, Generation, ModelEndpoint, Octets, Part, PlantedPage, Scenario};

/// One run's time in the slot. With [`Tenancy::nobody`] also the time between runs.
pub(crate) struct Tenancy {
    generation: Option<Generation>,
    began: Instant,
    domain: String,
    catch_all: bool,
    pages: HashMap<(String, String), PlantedPage>,
    endpoints: Vec<ModelEndpoint>,
    secrets: SecretSet,
    authority: Option<Authority>,
    hits: AtomicU64,
    model_requests: AtomicU64,
    /// Everything that still runs for this tenancy.
    pub(crate) tasks: TaskTracker,
    /// Cuts what still runs.
    pub(crate) cut: CancellationToken,
}

/// The tenancy in force.
pub(crate) struct Current(RwLock<Arc<Tenancy>>);

impl Tenancy {
    /// A run moves in.
    pub(crate) fn of(generation: Generation, scenario: Scenario) -> Result<Self, AuthorityError> {
        let secrets = scenario.secrets.iter().map(|secret| (&secret.name, secret.value.as_bytes()));
        Ok(Tenancy {
            generation: Some(generation),
            secrets: SecretSet::new(secrets),
            authority: Some(Authority::load(&scenario.authority)?),
            domain: scenario.fake_domain,
            catch_all: scenario.catch_all,
            pages: scenario.pages.into_iter().map(|page| ((page.host.clone(), page.path.clone()), page)).collect(),
            endpoints: scenario.model_endpoints,
            ..Self::nobody()
        })
    }

    /// Nobody lives here: everything is recorded, nothing is found.
    pub(crate) fn nobody() -> Self {
        Tenancy {
            generation: None,
            began: Instant::now(),
            domain: String::new(),
            catch_all: false,
            pages: HashMap::new(),
            endpoints: Vec::new(),
            secrets: SecretSet::new::<&str, &str>([]),
            authority: None,
            hits: AtomicU64::new(0),
            model_requests: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
        }
    }

    pub(crate) fn generation(&self) -> Option<Generation> {
        self.generation
    }

    pub(crate) fn at_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn next_hit(&self) -> u64 {
        self.hits.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn next_model_request(&self) -> u64 {
        self.model_requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn secrets(&self) -> &SecretSet {
        &self.secrets
    }

    pub(crate) fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Whether a name is the fake domain or under it, label by label.
    pub(crate) fn covers(&self, host: &str) -> bool {
        !self.domain.is_empty()
            && host.strip_suffix(self.domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Whether a name or address that the fake domain does not cover is answered all the same.
    pub(crate) fn catches_all(&self) -> bool {
        self.catch_all
    }

    pub(crate) fn page(&self, host: &str, path: &str) -> Option<&PlantedPage> {
        self.pages.get(&(host.to_owned(), path.to_owned()))
    }

    /// Whether the relay passes this request on; the query does not matter.
    pub(crate) fn allows_model_request(&self, method: &str, path: &str) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.method == method && endpoint.path == path)
    }

    /// Searches a part of an observation that is there as a whole.
    pub(crate) fn search(&self, part: Part, bytes: &[u8], found: &mut Vec<Found>) {
        add(found, part, &self.secrets.search(bytes));
    }

    /// Searches headers: each name with its value.
    pub(crate) fn search_headers(&self, headers: &[(String, Octets)], found: &mut Vec<Found>) {
        for (name, value) in headers {
            let line = [name.as_bytes(), b": ", value.as_bytes()].concat();
            self.search(Part::Headers, &line, found);
        }
    }
}

/// Adds what was found in a part; each secret in each disguise once a part. Says whether anything was new.
pub(crate) fn add(found: &mut Vec<Found>, part: Part, matches: &[Match]) -> bool {
    let before = found.len();
    for matched in matches {
        let new = Found { secret: matched.secret.to_string(), encoding: matched.encoding, part };
        if !found.contains(&new) {
            found.push(new);
        }
    }
    found.len() > before
}

impl Current {
    pub(crate) fn nobody() -> Self {
        Current(RwLock::new(Arc::new(Tenancy::nobody())))
    }

    pub(crate) fn get(&self) -> Arc<Tenancy> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, tenancy: Tenancy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tenancy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_compared_label_by_label() {
        let tenancy = Tenancy { domain: "redroom.test".to_owned(), ..Tenancy::nobody() };
        for inside in ["redroom.test", "a.redroom.test", "a.b.c.redroom.test"] {
            assert!(tenancy.covers(inside), "{inside}");
        }
        for outside in ["evilredroom.test", "redroom.test.evil.com", "test", "", ".redroom.tes", "xredroom.test"] {
            assert!(!tenancy.covers(outside), "{outside}");
        }
        assert!(!Tenancy::nobody().covers(""));
    }
}
