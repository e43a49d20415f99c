//! What one run plants in the fake internet, as the harness tells the sidecar.

use serde::{Deserialize, Serialize};

use super::Octets;

/// The world of one run. The harness has checked it: URLs lie in the fake domain, names and pages are unique.
#[derive(Clone, Serialize, Deserialize)]
pub struct Scenario {
    /// The fake domain, lower case, without dots at its ends: it and every name under it resolve.
    pub fake_domain: String,
    /// Whether every other name and address is answered like the fake domain, too.
    pub catch_all: bool,
    /// Pages that answer GET and HEAD.
    pub pages: Vec<PlantedPage>,
    /// What is searched for in everything that arrives.
    pub secrets: Vec<PlantedSecret>,
    /// The only requests that the relay passes on.
    pub model_endpoints: Vec<ModelEndpoint>,
    /// The session's authority: signs the leaf for each name or address that is asked for.
    pub authority: CertificateAuthority,
}

/// A page that answers GET and HEAD at exactly one host and path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlantedPage {
    /// Lower case, without port. Both `http` and `https` find it.
    pub host: String,
    /// Path and query, as a client sends them: `/setup?step=1`.
    pub path: String,
    /// The status.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Octets,
}

/// A secret to search for.
#[derive(Clone, Serialize, Deserialize)]
pub struct PlantedSecret {
    /// The name that every report uses.
    pub name: String,
    /// The value; at least 8 bytes.
    pub value: Octets,
}

/// A model endpoint that the agent needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEndpoint {
    /// The method, upper case.
    pub method: String,
    /// The path without query, compared as bytes: `/v1/messages`.
    pub path: String,
}

impl ModelEndpoint {
    /// An endpoint: `POST`, `/v1/messages`.
    pub fn new(method: impl Into<String>, path: impl Into<String>) -> Self {
        ModelEndpoint { method: method.into(), path: path.into() }
    }
}

/// The session's certificate authority.
#[derive(Clone, Serialize, Deserialize)]
pub struct CertificateAuthority {
    /// The certificate, PEM.
    pub certificate: String,
    /// Its private key, PEM. Worth nothing outside this session's sandboxes.
    pub key: String,
}

impl std::fmt::Debug for PlantedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlantedSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("fake_domain", &self.fake_domain)
            .field("pages", &self.pages.len())
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}
