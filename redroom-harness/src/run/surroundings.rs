//! What every sandbox starts with beside what the attack plants: the environment, and the fake internet's authority in every
//! place where programs look for one.

use bytes::Bytes;

use crate::agent::{Agent, Wiring};
use crate::backend::{HOME, Owner, PlacedEntry, PlacedKind, WORKSPACE};
use crate::model::Given;

/// Debian's bundle: what OpenSSL, curl, git and Python read.
pub(crate) const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// OpenSSL's own default file, read by what was not told of the bundle.
const OPENSSL_FILE: &str = "/usr/lib/ssl/cert.pem";
/// The authority's certificate alone: what Node adds to its own list.
const AUTHORITY: &str = "/usr/local/share/ca-certificates/redroom.crt";

/// Where the agent finds model, hook and certificates.
pub(crate) fn wiring() -> Wiring {
    use redroom_sidecar::wire::{HOOK_ADDRESS, RELAY_ADDRESS};
    Wiring {
        model_base_url: format!("http://{RELAY_ADDRESS}"),
        tool_hook_url: format!("http://{HOOK_ADDRESS}/hook"),
        ca_bundle: SYSTEM_BUNDLE.to_owned(),
        ca_certificate: AUTHORITY.to_owned(),
    }
}

/// The environment of every command in the sandbox.
pub(crate) fn environment(agent: &dyn Agent, wiring: &Wiring) -> Vec<(String, String)> {
    let bundle = wiring.ca_bundle.as_str();
    let common = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("PWD", WORKSPACE),
        // Each of these is read by programs that do not read the system's bundle.
        ("SSL_CERT_FILE", bundle),
        ("CURL_CA_BUNDLE", bundle),
        ("REQUESTS_CA_BUNDLE", bundle),
        ("GIT_SSL_CAINFO", bundle),
        ("PIP_CERT", bundle),
        ("AWS_CA_BUNDLE", bundle),
        ("CARGO_HTTP_CAINFO", bundle),
        ("DENO_CERT", wiring.ca_certificate.as_str()),
        ("NODE_EXTRA_CA_CERTS", wiring.ca_certificate.as_str()),
        // A prompt for a password would wait for ever.
        ("GIT_TERMINAL_PROMPT", "0"),
        // A look at the status is no change: git would write what it learned into the index. (`git diff` does so all the same.)
        ("GIT_OPTIONAL_LOCKS", "0"),
    ];
    let mut env: Vec<(String, String)> = common.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    for (name, value) in agent.environment(wiring) {
        env.retain(|(earlier, _)| *earlier != name);
        env.push((name, value));
    }
    env
}

/// What the agent has from us: credentials among it are no surprise in a request.
pub(crate) fn given(agent: &dyn Agent, wiring: &Wiring) -> Given {
    let values = agent.environment(wiring).into_iter().map(|(_, value)| value);
    let files = agent.root_files(wiring).into_iter().map(|file| file.body);
    Given::new(redroom_sidecar::wire::RELAY_ADDRESS.to_string(), values, files)
}

/// Files that belong to root: certificates and the agent's settings.
pub(crate) fn root_entries(
    agent: &dyn Agent,
    wiring: &Wiring,
    authority: &str,
    image_bundle: Option<&[u8]>,
) -> Vec<PlacedEntry> {
    let mut bundle = image_bundle.unwrap_or_default().to_vec();
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(authority.as_bytes());
    let bundle = Bytes::from(bundle);
    let mut files = vec![
        (SYSTEM_BUNDLE.to_owned(), bundle.clone()),
        (OPENSSL_FILE.to_owned(), bundle),
        (AUTHORITY.to_owned(), Bytes::from(authority.to_owned())),
    ];
    files.extend(agent.root_files(wiring).into_iter().map(|file| (file.path, Bytes::from(file.body))));
    let mut entries = Vec::new();
    for (path, body) in files {
        parents(&mut entries, &path, Owner::Root);
        entries.push(PlacedEntry { path, kind: PlacedKind::File(body), mode: 0o644, owner: Owner::Root });
    }
    entries
}

/// Adds the folders above `path` that are not among `entries` yet; those that every image has are left as they are.
pub(crate) fn parents(entries: &mut Vec<PlacedEntry>, path: &str, owner: Owner) {
    const STANDING: [&str; 16] = [
        "/",
        "/etc",
        "/home",
        HOME,
        WORKSPACE,
        "/tmp",
        "/var",
        "/var/tmp",
        "/usr",
        "/usr/local",
        "/usr/local/share",
        "/usr/lib",
        "/etc/ssl",
        "/etc/ssl/certs",
        "/opt",
        "/srv",
    ];
    let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).collect();
    for end in ends {
        let folder = &path[..end];
        let known = STANDING.contains(&folder) || entries.iter().any(|entry| entry.path == folder);
        if !known {
            entries.push(PlacedEntry { path: folder.to_owned(), kind: PlacedKind::Folder, mode: 0o755, owner });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_children_and_only_once() {
        let mut entries = Vec::new();
        parents(&mut entries, "/workspace/a/b/c.txt", Owner::Agent);
        parents(&mut entries, "/workspace/a/d.txt", Owner::Agent);
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["/workspace/a", "/workspace/a/b"]);
    }
}
