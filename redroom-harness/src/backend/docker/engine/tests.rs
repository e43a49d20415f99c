use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::*;
use crate::backend::docker::address::DEFAULT_SOCKET;

fn version(engine: &str, api: &str, os: &str, arch: &str) -> SystemVersion {
    SystemVersion {
        version: Some(engine.to_owned()),
        api_version: Some(api.to_owned()),
        os: Some(os.to_owned()),
        arch: Some(arch.to_owned()),
        ..Default::default()
    }
}

#[test]
fn an_engine_that_is_new_enough_is_fit() {
    assert_eq!(
        fit(&version("28.5.2+dfsg4", "1.51", "linux", "amd64")).unwrap(),
        ("28.5.2".to_owned(), Machine::X86_64)
    );
    assert_eq!(fit(&version("29.0.0-rc.1", "1.52", "linux", "arm64")).unwrap().1, Machine::Aarch64);
}

#[test]
fn old_foreign_and_nameless_engines_are_refused_with_what_to_do() {
    for (unfit, word) in [
        (version("27.5.1", "1.47", "linux", "amd64"), "27.5.1"),
        (version("28.0.0", "1.47", "linux", "amd64"), "1.47"),
        (version("library-import", "1.51", "linux", "amd64"), "update it"),
        (version("28.5.2", "1.51", "windows", "amd64"), "Linux containers"),
        (version("28.5.2", "1.51", "linux", "riscv64"), "riscv64"),
        (SystemVersion::default(), "unknown"),
    ] {
        let error = fit(&unfit).unwrap_err();
        assert_eq!(error.code(), "docker_unavailable");
        assert!(error.detail().contains(word), "{error}");
        assert!(in_short(&error).starts_with("the engine ") && in_short(&error).len() < 60, "{}", in_short(&error));
    }
}

#[test]
fn podman_is_told_from_an_old_engine() {
    let component = |name: &str| bollard::models::SystemVersionComponents {
        name: name.to_owned(),
        version: "5.4.2".to_owned(),
        ..Default::default()
    };
    let podman = SystemVersion {
        components: Some(vec![component("Podman Engine"), component("Conmon")]),
        ..version("5.4.2", "1.41", "linux", "amd64")
    };
    let error = fit(&podman).unwrap_err();
    assert_eq!(error.code(), "docker_unavailable");
    for word in ["Podman 5.4.2", "1.41", "1.48", "remove themselves", "jail"] {
        assert!(error.detail().contains(word), "{word}: {error}");
    }
}

#[test]
fn an_absent_engine_is_answered_with_what_was_tried() {
    let usual = Found { address: Address::Unix(DEFAULT_SOCKET.into()), source: Source::Default };
    let text = advice(&usual, "socket not found", &[]);
    assert!(text.contains(DEFAULT_SOCKET) && text.contains("start Docker"), "{text}");
    let text = advice(&usual, "socket not found", &["/home/u/.colima/default/docker.sock".to_owned()]);
    assert!(text.contains("DOCKER_HOST=unix:///home/u/.colima/default/docker.sock"), "{text}");
    let text = advice(&usual, "error trying to connect: Permission denied (os error 13)", &[]);
    assert!(text.contains("group") && text.contains("rootless") && text.contains("ermission denied"), "{text}");
    let error = Error::backend("docker_unavailable", text);
    assert!(in_short(&error).contains("permission denied"), "{}", in_short(&error));
    let own = advice(&usual, "Permission denied", &["/run/user/7/docker.sock".to_owned()]);
    assert!(own.contains("DOCKER_HOST=unix:///run/user/7/docker.sock"), "{own}");
    let error = Error::backend("docker_unavailable", advice(&usual, "socket not found", &[]));
    assert_eq!(in_short(&error), "no engine answers");
    let address = Address::Tcp { host: "host".to_owned(), port: 2375, certificates: None };
    let text = advice(&Found { address, source: Source::Host }, "refused", &[]);
    assert!(text.contains("DOCKER_HOST=tcp://host:2375") && text.contains("DOCKER_TLS_VERIFY"), "{text}");
}

#[test]
fn statuses_tell_failures_apart() {
    let refused =
        |status_code| failed("x", BollardError::DockerResponseServerError { status_code, message: String::new() });
    assert_eq!(unless::<()>(&[404, 409], Err(refused(409))), Ok(None));
    assert_eq!(unless::<()>(&[404], Err(refused(500))), Err(refused(500)));
}

/// An engine at a socket, which answers each request by its path: at once, or never.
async fn stub(answers: fn(&str) -> bool, patience: Patience) -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = tokio::io::BufReader::new(stream);
                let mut line = String::new();
                stream.read_line(&mut line).await?;
                if !answers(line.split(' ').nth(1).unwrap_or_default()) {
                    std::future::pending::<()>().await;
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK").await?;
                stream.shutdown().await
            });
        }
    });
    let docker = connection::client(&Address::Unix(socket), Duration::from_secs(600)).unwrap();
    let holding =
        bollard::models::SystemInfo { memory_limit: Some(true), pids_limit: Some(true), ..Default::default() };
    let enforced = Enforced::of(&holding).unwrap();
    let facts = EngineFacts { version: "28".to_owned(), machine: Machine::X86_64, processors: 1, enforced };
    (folder, Engine::of(docker, facts, patience))
}

const IMPATIENT: Patience = Patience {
    call: Duration::from_millis(800),
    build: Duration::from_millis(1600),
    look: Duration::from_millis(100),
    sign: Duration::from_millis(300),
};

#[test]
fn an_engine_is_waited_for_as_long_as_it_is_documented() {
    let patience = Patience::default();
    assert_eq!((patience.call.as_secs(), patience.build.as_secs()), (2 * 60, 30 * 60));
    assert!(patience.look + patience.sign < Duration::from_secs(30), "one that hangs is known sooner");
}

#[tokio::test]
async fn an_engine_that_lives_but_never_answers_a_call_is_given_up_at_the_call_s_deadline() {
    let (_folder, engine) =
        stub(|path| path.ends_with("/_ping"), Patience { sign: Duration::from_secs(60), ..IMPATIENT }).await;
    let asked = tokio::time::Instant::now();
    let error = engine.call("look", engine.docker.inspect_exec("x")).await.unwrap_err();
    assert_eq!(error.code(), "docker_timeout");
    assert!(error.detail().contains("cannot look") && error.detail().contains("0.8 s"), "{error}");
    assert!(asked.elapsed() >= IMPATIENT.call, "{:?}", asked.elapsed());
    let error =
        engine.within(engine.patience().build, "build", std::future::pending::<Result<()>>()).await.unwrap_err();
    assert!(error.detail().contains("cannot build") && error.detail().contains("1.6 s"), "{error}");
    engine.check().await.unwrap();
}

#[tokio::test]
async fn an_engine_that_hangs_is_known_long_before_and_then_asked_no_more() {
    let patience = Patience { call: Duration::from_secs(600), ..IMPATIENT };
    let (_folder, engine) = stub(|_| false, patience).await;
    let look = || engine.call("look", engine.docker.inspect_exec("x"));
    let asked = tokio::time::Instant::now();
    let error = look().await.unwrap_err();
    assert_eq!((error.code(), error.by()), ("docker_timeout", crate::error::By::Backend));
    assert!(error.detail().contains("cannot look") && error.detail().contains("hangs"), "{error}");
    assert!(asked.elapsed() >= patience.look + patience.sign && asked.elapsed() < Duration::from_secs(60));
    // Even a call that would be answered has to wait for a sign of life.
    assert!(engine.within(patience.call, "look", async { Ok(()) }).await.is_err());
}

#[tokio::test]
async fn an_engine_that_is_gone_is_told_from_one_that_hangs() {
    let (folder, engine) = stub(|_| true, Patience::default()).await;
    engine.check().await.unwrap();
    std::fs::remove_file(folder.path().join("engine.sock")).unwrap();
    let error = engine.check().await.unwrap_err();
    assert_eq!(error.code(), "docker_lost");
    assert!(error.detail().contains("gone"), "{error}");
}
