//! The session's certificate authority, and the leaf for each name or address that is asked for.
//!
//! Strict verifiers (OpenSSL 3 with `X509_STRICT`, recent Python) want more than a signature: subjects that differ, key ids
//! that match, key usages, a serial of its own for each leaf, and a span of validity that is not absurd.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};

use crate::wire::CertificateAuthority;

/// The most leaves that are kept; one costs a key pair of about a tenth of a millisecond.
const MAX_LEAVES: usize = 512;

/// A certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// rcgen's refusal.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// rustls' refusal.
    #[error("a certificate's key cannot be used")]
    Key(#[from] rustls::Error),
}

/// Signs a leaf for each name or address.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

/// Whom a leaf is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A server name, in lower case.
    Name(String),
    /// The address that was meant.
    Address(IpAddr),
}

impl Authority {
    /// Makes a new authority, valid from yesterday for a month.
    ///
    /// # Errors
    ///
    /// No randomness, or a bug.
    pub fn generate() -> Result<CertificateAuthority, AuthorityError> {
        let key = KeyPair::generate()?;
        let params = authority_params();
        let certificate = params.self_signed(&key)?;
        Ok(CertificateAuthority { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Takes an authority that was made before.
    ///
    /// # Errors
    ///
    /// What does not parse.
    pub fn load(authority: &CertificateAuthority) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&authority.key)?;
        let certificate = der(&authority.certificate)?;
        // The issuer's name and key are all that a leaf takes from it.
        let issuer = Issuer::new(authority_params(), key);
        Ok(Authority { issuer, certificate, leaves: Mutex::default() })
    }

    /// The leaf for a name or address, with its key.
    pub(crate) fn leaf(&self, subject: &Subject) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let known = match subject {
            Subject::Name(name) => name.clone(),
            Subject::Address(address) => address.to_string(),
        };
        if let Some(leaf) = self.leaves().get(&known) {
            return Ok(leaf.clone());
        }
        let leaf = Arc::new(self.mint(subject)?);
        let mut leaves = self.leaves();
        if leaves.len() >= MAX_LEAVES {
            leaves.clear();
        }
        leaves.insert(known, leaf.clone());
        Ok(leaf)
    }

    fn mint(&self, subject: &Subject) -> Result<CertifiedKey, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // A common name holds at most 64 characters; what is verified is the alternative name.
        let (common, alternative) = match subject {
            Subject::Name(name) => (name.chars().take(64).collect(), SanType::DnsName(name.as_str().try_into()?)),
            Subject::Address(address) => (address.to_string(), SanType::IpAddress(*address)),
        };
        params.distinguished_name = name(&common);
        params.subject_alt_names = vec![alternative];
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        let now = OffsetDateTime::now_utc();
        params.not_before = now - Duration::hours(20);
        params.not_after = now + Duration::days(25);
        let leaf = params.signed_by(&key, &self.issuer)?;
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        Ok(CertifiedKey::new(chain, ring::sign::any_supported_type(&secret)?))
    }

    fn leaves(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<CertifiedKey>>> {
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("redroom test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::days(1);
    params.not_after = now + Duration::days(30);
    params
}

impl Subject {
    /// Whom to make a leaf for: the server name that the client sent, if it is a name, else the address that it meant.
    pub(crate) fn of(server_name: Option<&str>, address: IpAddr) -> Self {
        match server_name.map(str::to_ascii_lowercase) {
            Some(name) if is_name(&name) => Subject::Name(name),
            _ => Subject::Address(address),
        }
    }
}

fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(label) && name.parse::<IpAddr>().is_err()
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "redroom");
    name.push(DnType::CommonName, common);
    name
}

fn der(pem: &str) -> Result<CertificateDer<'static>, AuthorityError> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
        AuthorityError::Key(rustls::Error::General("the authority's certificate does not parse".to_owned()))
    })
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
