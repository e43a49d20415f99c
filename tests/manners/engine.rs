//! The engine as a test sees it: asked over its socket, imitated, or put behind a line that can be cut.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A container, as the engine lists it.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) role: String,
    pub(crate) running: bool,
}

pub(crate) fn socket() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    PathBuf::from(host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock"))
}

pub(crate) fn answers() -> bool {
    UnixStream::connect(socket()).is_ok()
}

/// Those whose sessions have their locks in the folder with this id.
pub(crate) fn containers(locks: &str) -> Vec<Container> {
    let filters = format!("%7B%22label%22%3A%5B%22redroom.locks%3D{}%22%5D%7D", locks.trim());
    let listed = ask("GET", &format!("/containers/json?all=true&filters={filters}"));
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap_or_else(|error| panic!("{error}: {listed}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |container: &Value| Container {
        id: text(&container["Id"]),
        role: text(&container["Labels"]["redroom.role"]),
        running: container["State"] == "running",
    };
    listed.iter().map(read).collect()
}

pub(crate) fn kill(container: &Container) {
    ask("POST", &format!("/containers/{}/kill", container.id));
}

/// The body of an answer.
fn ask(method: &str, path: &str) -> String {
    let mut stream = UnixStream::connect(socket()).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Answers every question as an engine of an older version.
pub(crate) fn old_engine(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_as_old(stream));
        }
    });
}

fn answer_as_old(mut stream: UnixStream) {
    let body =
        r#"{"Version":"27.0.3","ApiVersion":"1.46","MinAPIVersion":"1.24","Os":"linux","Arch":"amd64","NCPU":2}"#;
    let mut asked = Vec::new();
    let mut chunk = [0; 4096];
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(length) => asked.extend_from_slice(&chunk[..length]),
        }
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

/// A socket that leads to the engine until it is cut.
pub(crate) struct Line {
    socket: PathBuf,
    streams: Arc<Mutex<Option<Vec<UnixStream>>>>,
}

impl Line {
    pub(crate) fn to_engine(at: PathBuf) -> Self {
        let listener = UnixListener::bind(&at).unwrap();
        let streams = Arc::new(Mutex::new(Some(Vec::new())));
        let kept = streams.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Some(kept) = &mut *kept.lock().unwrap() else { return };
                let far = UnixStream::connect(socket()).unwrap();
                kept.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                copy(near.try_clone().unwrap(), far.try_clone().unwrap());
                copy(far, near);
            }
        });
        Line { socket: at, streams }
    }

    pub(crate) fn cut(&self) {
        std::fs::remove_file(&self.socket).unwrap();
        for stream in self.streams.lock().unwrap().take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
