use std::fs;

use super::*;

/// A folder as the docker command keeps it, with one context.
fn configured(config: &str, name: &str, meta: &str) -> (tempfile::TempDir, Surroundings) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    let digest: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let context = folder.path().join("contexts/meta").join(&digest);
    fs::create_dir_all(&context).unwrap();
    fs::write(context.join("meta.json"), meta).unwrap();
    let config = Some(folder.path().to_owned());
    (folder, Surroundings { config: config.clone(), certificates: config, ..Surroundings::default() })
}

fn at_host(host: &str) -> Result<Found, AddressError> {
    find(&Surroundings { host: Some(host.to_owned()), ..Surroundings::default() })
}

const COLIMA: &str = r#"{"Name":"colima","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///home/u/.colima/docker.sock","SkipTLSVerify":false}}}"#;

#[test]
fn a_machine_that_says_nothing_has_the_usual_socket() {
    let found = find(&Surroundings::default()).unwrap();
    assert_eq!(found, Found { address: Address::Unix(DEFAULT_SOCKET.into()), source: Source::Default });
    let (_folder, surroundings) = configured(r#"{"auths":{}}"#, "colima", COLIMA);
    assert_eq!(find(&surroundings).unwrap().source, Source::Default);
    let surroundings = Surroundings { context: Some("default".to_owned()), ..surroundings };
    assert_eq!(find(&surroundings).unwrap().source, Source::Default);
}

#[test]
fn the_context_in_use_is_found_and_host_and_variable_are_stronger() {
    let (_folder, mut surroundings) = configured(r#"{"currentContext":"colima"}"#, "colima", COLIMA);
    let found = find(&surroundings).unwrap();
    assert_eq!(found.address, Address::Unix("/home/u/.colima/docker.sock".into()));
    assert!(found.source.to_string().contains("colima") && found.source.to_string().contains("config.json"));
    surroundings.context = Some("elsewhere".to_owned());
    let error = find(&surroundings).unwrap_err().to_string();
    assert!(error.contains("elsewhere") && error.contains("DOCKER_CONTEXT"), "{error}");
    surroundings.host = Some("unix:///own.sock".to_owned());
    assert_eq!(find(&surroundings).unwrap().address, Address::Unix("/own.sock".into()));
}

#[test]
fn addresses_over_the_network_are_read() {
    for (text, host, port) in [
        ("tcp://engine", "engine", 2375),
        ("tcp://10.0.0.1:99", "10.0.0.1", 99),
        ("tcp://[::1]:2376/", "[::1]", 2376),
        ("tcp://[2001:db8::1]", "[2001:db8::1]", 2375),
    ] {
        let address = Address::Tcp { host: host.to_owned(), port, certificates: None };
        assert_eq!(at_host(text).unwrap().address, address, "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_reason_and_without_its_password() {
    for (text, word) in [
        ("ssh://u:hunter2@host", "ssh -nNT"),
        ("npipe:////./pipe/docker_engine", "Windows"),
        ("tcp://u:hunter2@host:2375", "take it out"),
        ("unix://relative", "unix:///"),
        ("/var/run/docker.sock", "unix:///"),
        ("tcp://", "tcp://host:port"),
        ("tcp://host:99999", "tcp://host:port"),
        ("tcp://host:2375/prefix", "tcp://host:port"),
        ("tcp://::1:2375", "tcp://host:port"),
        ("tcp://[host]", "tcp://host:port"),
        ("tcp://ho st", "tcp://host:port"),
        ("ftp://host", "tcp://host:port"),
    ] {
        let error = at_host(text).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains("hunter2"), "{text}: {error}");
    }
}

#[test]
fn certificates_are_the_engine_s_and_whole_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let surroundings = Surroundings {
        host: Some("tcp://engine".to_owned()),
        tls: true,
        certificates: Some(folder.path().to_owned()),
        ..Surroundings::default()
    };
    let error = find(&surroundings).unwrap_err().to_string();
    assert!(error.contains("ca.pem"), "{error}");
    fs::write(folder.path().join("ca.pem"), "authority").unwrap();
    let Address::Tcp { port, certificates: Some(found), .. } = find(&surroundings).unwrap().address else {
        panic!("no certificates")
    };
    assert_eq!((port, found.identity.is_none()), (2376, true));
    fs::write(folder.path().join("key.pem"), "PRIVATE").unwrap();
    assert!(find(&surroundings).unwrap_err().to_string().contains("cert.pem"));
    fs::write(folder.path().join("cert.pem"), "certificate").unwrap();
    let found = find(&surroundings).unwrap();
    assert!(!format!("{found:?}{}", found.address).contains("PRIVATE"));
}

#[test]
fn hostile_files_are_refused_and_never_quoted() {
    let huge = format!("{{\"currentContext\":\"{}\"}}", "x".repeat(FILE_LIMIT as usize));
    let deep = "[".repeat(200_000);
    for (config, word) in [(huge.as_str(), "bytes"), (&deep, "JSON"), ("{\"auths\": hunter2", "line 1")] {
        let (_folder, surroundings) = configured(config, "x", COLIMA);
        let error = find(&surroundings).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("config.json") && !error.contains("hunter2"), "{error:.300}");
    }
    // Whatever a context is called, its folder is its digest.
    let (_folder, surroundings) = configured(r#"{"currentContext":"../../../etc"}"#, "x", COLIMA);
    assert!(matches!(find(&surroundings), Err(AddressError::NoContext { .. })));
    for (meta, word) in [
        (r#"{"Endpoints":{}}"#, "no Docker endpoint"),
        (r#"{"Endpoints":{"docker":{"Host":"tcp://h:1","SkipTLSVerify":true}}}"#, "SkipTLSVerify"),
        (r#"{"Endpoints":{"docker":{"Host":"ssh://h"}}}"#, "ssh -nNT"),
        (r#"{"Endpoints":{"docker":{"Host":7}}}"#, "meta.json"),
    ] {
        let (_folder, surroundings) = configured(r#"{"currentContext":"c"}"#, "c", meta);
        let error = find(&surroundings).unwrap_err().to_string();
        assert!(error.contains(word), "{meta}: {error}");
    }
    let (folder, surroundings) = configured("", "x", COLIMA);
    fs::remove_file(folder.path().join("config.json")).unwrap();
    let fifo = folder.path().join("config.json");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(find(&surroundings).unwrap_err().to_string().contains("no file"));
}
