//! Whom a client believes: this machine's certificate authorities, and those that a user names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Result, chain};

/// The most that a file of certificates may weigh.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Certificate authorities beside this machine's own.
#[derive(Clone, Default)]
pub(crate) struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Those in a PEM file. The error continues a sentence that names the file, and says nothing of what is in it.
    pub(crate) fn read(path: &Path) -> std::result::Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read ({error})");
        let facts = std::fs::metadata(path).map_err(unreadable)?;
        if !facts.is_file() {
            return Err("is no file".to_owned());
        }
        let mut pem = Vec::new();
        File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut pem)).map_err(unreadable)?;
        if pem.len() as u64 > FILE_LIMIT {
            return Err("is too large for a file of certificates".to_owned());
        }
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<Vec<_>, _>>();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => Ok(Authorities(certificates)),
            _ => Err("holds no certificate; give one in PEM form (-----BEGIN CERTIFICATE-----)".to_owned()),
        }
    }

    /// What a client needs to know for TLS. On a machine without any authority the usual ones are trusted.
    pub(super) fn client_config(&self) -> Result<ClientConfig> {
        let unavailable = |error: &dyn std::fmt::Display| {
            Error::redroom("tls_unavailable", format!("TLS could not be set up: {error}"))
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        for certificate in &self.0 {
            roots.add(certificate.clone()).map_err(|error| unavailable(&chain(&error)))?;
        }
        let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unavailable(&error))?;
        Ok(versions.with_root_certificates(roots).with_no_client_auth())
    }
}

#[cfg(test)]
impl From<Vec<CertificateDer<'static>>> for Authorities {
    fn from(certificates: Vec<CertificateDer<'static>>) -> Self {
        Authorities(certificates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_says_what_it_should_be_and_not_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let wrong = |what: &str| Authorities::read(Path::new(what)).err().unwrap();
        assert!(wrong(path.to_str().unwrap()).contains("cannot be read"));
        assert_eq!(wrong(folder.path().to_str().unwrap()), "is no file");
        for content in ["", "sk-secret", "-----BEGIN CERTIFICATE-----\nsk-secret\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&path, content).unwrap();
            let said = wrong(path.to_str().unwrap());
            assert!(said.contains("no certificate") && !said.contains("sk-secret"), "{said}");
        }
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&path, key.signing_key.serialize_pem()).unwrap();
        assert!(wrong(path.to_str().unwrap()).contains("no certificate"));
        std::fs::write(&path, key.cert.pem()).unwrap();
        assert_eq!(Authorities::read(&path).unwrap().0.len(), 1);
        std::fs::write(&path, "x".repeat(1024 * 1024 + 1)).unwrap();
        assert!(wrong(path.to_str().unwrap()).contains("too large"));
    }
}
