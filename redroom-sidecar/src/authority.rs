//! The session's certificate authority: leaf certificates for every name and address that the agent asks for.
//!
//! What strict verifiers want and generators forget: authority and leaves have different names, leaves carry the
//! authority's key id, every serial is fresh, validity is days, not centuries.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;

use crate::wire::CertificateAuthority;

/// A space in it, so that no host name can ever be the same.
const AUTHORITY_NAME: &str = "redroom session authority";
const LEAF_NAME: &str = "redroom fake host";

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How many leaves are kept ready.
const LEAVES: usize = 256;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The authority's key does not parse.
    #[error("the session's certificate authority cannot be read")]
    Unreadable(#[source] rcgen::Error),
    /// A certificate could not be made.
    #[error("no certificate could be made")]
    Unsigned(#[source] rcgen::Error),
    /// The certificate cannot be served.
    #[error("a certificate cannot be served")]
    Unusable(#[source] rustls::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// The session's certificate authority.
pub struct Authority {
    source: CertificateAuthority,
    issuer: Issuer<'static, KeyPair>,
    /// One key for all leaves: it is no secret worth guarding, and making one takes longer than signing.
    leaf_key: KeyPair,
    provider: Arc<CryptoProvider>,
    leaves: Mutex<Leaves>,
}

#[derive(Default)]
struct Leaves {
    ready: HashMap<Subject, (Arc<ServerConfig>, u64)>,
    uses: u64,
}

/// What a leaf is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Name(String),
    Address(IpAddr),
}

impl Subject {
    /// The server name if it is one that a certificate can carry, else the address that was meant: clients send no server
    /// name for an address.
    pub(crate) fn of(server_name: Option<&str>, meant: IpAddr) -> Self {
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        match server_name.map(|name| name.strip_suffix('.').unwrap_or(name)) {
            Some(name) if name.len() <= 253 && name.split('.').all(label) => Subject::Name(name.to_ascii_lowercase()),
            _ => Subject::Address(meant.to_canonical()),
        }
    }
}

impl Authority {
    /// Makes a session's authority: valid from a day back to a month ahead.
    pub fn generate() -> Result<CertificateAuthority, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Unsigned)?;
        let mut params = authority_params();
        set_validity(&mut params, DAY, 30 * DAY);
        params.serial_number = Some(fresh_serial(&ring::default_provider())?);
        params.use_authority_key_identifier_extension = true;
        let certificate = params.self_signed(&key).map_err(AuthorityError::Unsigned)?;
        Ok(CertificateAuthority { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Takes up an authority that [`Authority::generate`] made.
    pub fn load(authority: &CertificateAuthority) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&authority.key).map_err(AuthorityError::Unreadable)?;
        Ok(Authority {
            source: authority.clone(),
            issuer: Issuer::new(authority_params(), key),
            leaf_key: KeyPair::generate().map_err(AuthorityError::Unsigned)?,
            provider: Arc::new(ring::default_provider()),
            leaves: Mutex::default(),
        })
    }

    /// Whether this is that authority.
    pub(crate) fn is(&self, other: &CertificateAuthority) -> bool {
        self.source.certificate == other.certificate && self.source.key == other.key
    }

    /// The TLS configuration for a subject, minted if it is not ready.
    pub(crate) fn server_config(&self, subject: &Subject) -> Result<Arc<ServerConfig>, AuthorityError> {
        if let Some(config) = self.leaves.lock().unwrap_or_else(PoisonError::into_inner).take_up(subject) {
            return Ok(config);
        }
        let config = Arc::new(self.mint(subject)?);
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner).put_by(subject.clone(), config.clone());
        Ok(config)
    }

    fn mint(&self, subject: &Subject) -> Result<ServerConfig, AuthorityError> {
        let leaf = self.leaf(subject)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(AuthorityError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .map_err(AuthorityError::Unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Nothing is resumed: tickets and sessions would be memory that the agent decides about.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn leaf(&self, subject: &Subject) -> Result<CertificateDer<'static>, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(LEAF_NAME);
        params.subject_alt_names = vec![match subject {
            Subject::Name(name) => SanType::DnsName(name.as_str().try_into().map_err(AuthorityError::Unsigned)?),
            Subject::Address(address) => SanType::IpAddress(*address),
        }];
        // Within the authority's span for any session of less than three weeks.
        set_validity(&mut params, HOUR, 7 * DAY);
        params.serial_number = Some(fresh_serial(&self.provider)?);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(AuthorityError::Unsigned)?;
        Ok(leaf.into())
    }
}

impl Leaves {
    fn take_up(&mut self, subject: &Subject) -> Option<Arc<ServerConfig>> {
        self.uses += 1;
        let (config, last_used) = self.ready.get_mut(subject)?;
        *last_used = self.uses;
        Some(config.clone())
    }

    fn put_by(&mut self, subject: Subject, config: Arc<ServerConfig>) {
        if self.ready.len() >= LEAVES {
            let stale = self.ready.iter().min_by_key(|(_, (_, last_used))| *last_used);
            if let Some(stale) = stale.map(|(subject, _)| subject.clone()) {
                self.ready.remove(&stale);
            }
        }
        self.ready.insert(subject, (config, self.uses));
    }
}

/// Never the key.
impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// What issuing depends on, the same whenever an authority is made or loaded: its name and use. The key id follows from
/// the key.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Valid around now, to the second.
fn set_validity(params: &mut CertificateParams, back: Duration, ahead: Duration) {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since_epoch.as_secs());
    params.not_before = now - back;
    params.not_after = now + ahead;
}

/// Positive, 127 random bits.
fn fresh_serial(provider: &CryptoProvider) -> Result<SerialNumber, AuthorityError> {
    let mut serial = [0; 16];
    provider.secure_random.fill(&mut serial).map_err(|_| AuthorityError::NoRandomness)?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&serial))
}
