//! Where the engine is: `DOCKER_HOST`, else the Docker context that is chosen, else the usual socket.
//!
//! The client library knows no contexts, so the `docker` command's own files are read here: as little of them as is needed, no more
//! than so many bytes, and never with a path that stands in one of them.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// Where an engine listens on a machine that says nothing.
pub(crate) const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// The most that a file of the `docker` command may weigh.
const FILE_LIMIT: u64 = 1024 * 1024;
const PLAIN_PORT: u16 = 2375;
const TLS_PORT: u16 = 2376;
/// The name of the context that stands for "none".
const NO_CONTEXT: &str = "default";

/// An engine's address, and who says so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: Address,
    pub(crate) source: Source,
}

/// Where an engine listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// Over the network; with certificates where it is to be trusted.
    Tcp {
        host: String,
        port: u16,
        certificates: Option<Certificates>,
    },
}

/// What an engine is known by, and what this client is known by to it. PEM; holds a key, so it is never shown.
#[derive(PartialEq, Eq)]
pub(crate) struct Certificates {
    pub(crate) authority: Vec<u8>,
    pub(crate) identity: Option<Identity>,
}

/// A client's certificate and its key.
#[derive(PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Who says where the engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `DOCKER_HOST`.
    Host,
    /// A context of this name, and what chose it.
    Context { name: String, chosen_by: String },
    /// Nobody.
    Default,
}

/// Why there is no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("{0} is no address of an engine: write unix:///path/to/docker.sock or tcp://host:port")]
    NoAddress(String),
    #[error(
        "{0} goes through a login, which redroom does not do; let ssh bring the socket here (`ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock USER@HOST`), and set DOCKER_HOST=unix:///tmp/docker.sock"
    )]
    Ssh(String),
    #[error("{0} is a pipe of Windows; redroom speaks to engines on Linux, such as the one of a WSL distribution")]
    Pipe(String),
    #[error("{0} brings a user or password along, which an engine does not ask for: take it out")]
    User(String),
    #[error("there is no context {name:?} ({chosen_by} chooses it): `docker context ls` shows which there are")]
    NoContext { name: String, chosen_by: String },
    #[error("the context {0:?} has no Docker endpoint: choose another with DOCKER_CONTEXT, or set DOCKER_HOST")]
    NoEndpoint(String),
    #[error(
        "the context {0:?} is to take any engine for the right one (`SkipTLSVerify`): who poses as it would run the suite; give the context the engine's certificate"
    )]
    Unverified(String),
    #[error("{} cannot be used: {why}", path.display())]
    File { path: PathBuf, why: String },
}

/// What the environment says of it, and what it means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// `DOCKER_HOST`.
    pub(crate) host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub(crate) context: Option<String>,
    /// `DOCKER_CONFIG`, else `~/.docker`.
    pub(crate) config: Option<PathBuf>,
    /// `DOCKER_TLS_VERIFY`.
    pub(crate) tls: bool,
    /// `DOCKER_CERT_PATH`, else the configuration's folder.
    pub(crate) certificates: Option<PathBuf>,
}

impl Surroundings {
    pub(crate) fn read() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        let config = set("DOCKER_CONFIG").map(PathBuf::from);
        let config = config.or_else(|| Some(Path::new(&set("HOME")?).join(".docker")));
        Surroundings {
            host: text("DOCKER_HOST"),
            context: text("DOCKER_CONTEXT"),
            tls: set("DOCKER_TLS_VERIFY").is_some(),
            certificates: set("DOCKER_CERT_PATH").map(PathBuf::from).or_else(|| config.clone()),
            config,
        }
    }
}

/// Finds the engine's address as the `docker` command does: `DOCKER_HOST` is stronger than a context, `DOCKER_CONTEXT` than the one
/// that is in use.
pub(crate) fn find(surroundings: &Surroundings) -> Result<Found, AddressError> {
    if let Some(host) = &surroundings.host {
        let certificates = || match &surroundings.certificates {
            _ if !surroundings.tls => Ok(None),
            None => Err(AddressError::File {
                path: PathBuf::from("~/.docker"),
                why: "there is no home folder; set DOCKER_CERT_PATH".to_owned(),
            }),
            Some(folder) => Certificates::in_folder(folder).map(Some),
        };
        return Ok(Found { address: address(host, certificates)?, source: Source::Host });
    }
    let Some((name, chosen_by)) = chosen(surroundings)? else {
        return Ok(Found { address: Address::Unix(PathBuf::from(DEFAULT_SOCKET)), source: Source::Default });
    };
    let config = surroundings.config.clone().unwrap_or_default();
    let address = in_context(&config, &name, &chosen_by)?;
    Ok(Found { address, source: Source::Context { name, chosen_by } })
}

/// The context that is chosen, and by what.
fn chosen(surroundings: &Surroundings) -> Result<Option<(String, String)>, AddressError> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Config {
        current_context: String,
    }
    if let Some(name) = &surroundings.context {
        return Ok((name != NO_CONTEXT).then(|| (name.clone(), "DOCKER_CONTEXT".to_owned())));
    }
    let Some(path) = surroundings.config.as_ref().map(|folder| folder.join("config.json")) else { return Ok(None) };
    let Some(text) = read(&path)? else { return Ok(None) };
    let config: Config = parse(&path, &text)?;
    let chosen = !["", NO_CONTEXT].contains(&&*config.current_context);
    Ok(chosen.then(|| (config.current_context, path.display().to_string())))
}

fn in_context(config: &Path, name: &str, chosen_by: &str) -> Result<Address, AddressError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Meta {
        #[serde(default)]
        endpoints: Endpoints,
    }
    #[derive(Default, Deserialize)]
    struct Endpoints {
        docker: Option<Endpoint>,
    }
    #[derive(Deserialize)]
    struct Endpoint {
        #[serde(default, rename = "Host")]
        host: String,
        #[serde(default, rename = "SkipTLSVerify")]
        skip_tls_verify: bool,
    }
    // The folder is called by the name's digest, so no name leads out of its place.
    let folder: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = config.join("contexts/meta").join(&folder).join("meta.json");
    let Some(text) = read(&path)? else {
        return Err(AddressError::NoContext { name: name.to_owned(), chosen_by: chosen_by.to_owned() });
    };
    let meta: Meta = parse(&path, &text)?;
    let endpoint = meta.endpoints.docker.filter(|endpoint| !endpoint.host.is_empty());
    let endpoint = endpoint.ok_or_else(|| AddressError::NoEndpoint(name.to_owned()))?;
    if endpoint.skip_tls_verify {
        return Err(AddressError::Unverified(name.to_owned()));
    }
    let certificates = config.join("contexts/tls").join(&folder).join("docker");
    address(&endpoint.host, || match certificates.join("ca.pem").exists() {
        true => Certificates::in_folder(&certificates).map(Some),
        false => Ok(None),
    })
}

/// Reads an address as `DOCKER_HOST` has it. Certificates are looked for where it leads over the network only.
fn address(
    text: &str,
    certificates: impl FnOnce() -> Result<Option<Certificates>, AddressError>,
) -> Result<Address, AddressError> {
    let shown = without_user(text);
    match text.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(PathBuf::from(path))),
        Some(("tcp", rest)) => {
            if rest.contains('@') {
                return Err(AddressError::User(shown));
            }
            let certificates = certificates()?;
            let port = if certificates.is_some() { TLS_PORT } else { PLAIN_PORT };
            let (host, port) = host_and_port(rest, port).ok_or(AddressError::NoAddress(shown))?;
            Ok(Address::Tcp { host, port, certificates })
        }
        Some(("ssh", _)) => Err(AddressError::Ssh(shown)),
        Some(("npipe", _)) => Err(AddressError::Pipe(shown)),
        _ => Err(AddressError::NoAddress(shown)),
    }
}

/// A name or address, IPv6 in brackets, and a port.
fn host_and_port(text: &str, otherwise: u16) -> Option<(String, u16)> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.rfind(':').filter(|at| !text[*at..].contains(']')) {
        Some(at) => (&text[..at], text[at + 1..].parse().ok()?),
        None => (text, otherwise),
    };
    let bare = match host.strip_prefix('[') {
        Some(rest) => {
            let address = rest.strip_suffix(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            address
        }
        None => host,
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    (!bare.is_empty() && bare.chars().all(known) && (bare == host) != bare.contains(':'))
        .then(|| (host.to_owned(), port))
}

impl Certificates {
    fn in_folder(folder: &Path) -> Result<Self, AddressError> {
        let missing =
            |path: &Path| AddressError::File { path: path.to_owned(), why: "there is no such file".to_owned() };
        let authority = folder.join("ca.pem");
        let authority = read(&authority)?.ok_or_else(|| missing(&authority))?;
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let identity = match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            (None, Some(_)) => return Err(missing(&certificate)),
            (Some(_), None) => return Err(missing(&key)),
        };
        Ok(Certificates { authority, identity })
    }
}

/// A file's content; `None` where there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, AddressError> {
    let unusable = |why: String| AddressError::File { path: path.to_owned(), why };
    // Asked before it is opened: a fifo would keep whoever opens it waiting.
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
        Ok(found) if !found.is_file() => return Err(unusable("it is no file".to_owned())),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let reading = File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes));
    match reading {
        Ok(_) if bytes.len() as u64 > FILE_LIMIT => Err(unusable(format!("it has more than {FILE_LIMIT} bytes"))),
        Ok(_) => Ok(Some(bytes)),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// What a file says. Of one that says nothing, the place alone is told: it holds logins, too.
fn parse<'a, T: Deserialize<'a>>(path: &Path, text: &'a [u8]) -> Result<T, AddressError> {
    serde_json::from_slice(text).map_err(|error| AddressError::File {
        path: path.to_owned(),
        why: format!(
            "it is no such JSON as the docker command writes (line {}, column {})",
            error.line(),
            error.column()
        ),
    })
}

/// A URL without user and password.
pub(crate) fn without_user(host: &str) -> String {
    match (host.find("://"), host.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://{}", &host[..scheme], &host[at + 1..]),
        _ => host.to_owned(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Tcp { host, port, certificates } => {
                write!(f, "tcp://{host}:{port}{}", if certificates.is_some() { " with TLS" } else { "" })
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Host => f.write_str("DOCKER_HOST"),
            Source::Context { name, chosen_by } => write!(f, "the Docker context {name:?}, chosen by {chosen_by}"),
            Source::Default => f.write_str("DOCKER_HOST is not set, and no Docker context is in use"),
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
