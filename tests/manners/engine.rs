//! The engine as a test sees it: asked over its socket, imitated, or put behind a line that can be cut.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// A container, as the engine lists it.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) image: String,
    pub(crate) session: String,
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
        image: text(&container["Image"]),
        session: text(&container["Labels"]["redroom.session"]),
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
    ask_with(method, path, "")
}

/// The same, asked with a body of JSON.
pub(crate) fn ask_with(method: &str, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(socket()).unwrap();
    let head = format!("Host: docker\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    write!(stream, "{method} {path} HTTP/1.0\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // Logs come in frames with bytes of their own.
    let answer = String::from_utf8_lossy(&answer).into_owned();
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

/// A socket that leads to the engine, and on which something can happen at a call.
#[derive(Clone)]
pub(crate) struct Line(Arc<Inner>);

struct Inner {
    socket: PathBuf,
    /// Both ends of every connection; `None` when it is cut.
    streams: Mutex<Option<Vec<UnixStream>>>,
    frozen: Mutex<bool>,
    thawed: Condvar,
    delay: Mutex<Duration>,
    calls: Mutex<Vec<String>>,
    at: Mutex<Option<(Moment, Action)>>,
}

type Action = Box<dyn FnOnce(&Line) + Send>;

/// A call of the suite to its engine.
pub(crate) enum Moment {
    /// The first that has this in its line, after those that have had the ones before.
    After(Vec<&'static str>),
    /// So many calls after the first.
    Nth(usize),
}

impl Line {
    pub(crate) fn to_engine(at: PathBuf) -> Self {
        Self::between(at, socket())
    }

    pub(crate) fn between(at: PathBuf, engine: PathBuf) -> Self {
        let listener = UnixListener::bind(&at).unwrap();
        let line = Line(Arc::new(Inner {
            socket: at,
            streams: Mutex::new(Some(Vec::new())),
            frozen: Mutex::new(false),
            thawed: Condvar::new(),
            delay: Mutex::default(),
            calls: Mutex::default(),
            at: Mutex::default(),
        }));
        let kept = line.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Some(streams) = &mut *kept.0.streams.lock().unwrap() else { return };
                let Ok(far) = UnixStream::connect(&engine) else { continue };
                streams.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                kept.copy(near.try_clone().unwrap(), far.try_clone().unwrap(), true);
                kept.copy(far, near, false);
            }
        });
        line
    }

    /// As `DOCKER_HOST` has it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.0.socket.display())
    }

    /// Does something when the suite makes a call, which waits the while.
    pub(crate) fn at(&self, moment: Moment, action: impl FnOnce(&Line) + Send + 'static) {
        *self.0.at.lock().unwrap() = Some((moment, Box::new(action)));
    }

    /// Ends every connection, and there is no other. None is answered while others have ended already, as by an engine that is gone.
    pub(crate) fn cut(&self) {
        self.freeze();
        std::fs::remove_file(&self.0.socket).unwrap();
        for stream in self.0.streams.lock().unwrap().take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.thaw();
    }

    /// From now on nothing comes through, and nothing is closed: as of an engine that is stopped.
    pub(crate) fn freeze(&self) {
        *self.0.frozen.lock().unwrap() = true;
    }

    pub(crate) fn thaw(&self) {
        *self.0.frozen.lock().unwrap() = false;
        self.0.thawed.notify_all();
    }

    /// From now on everything takes this much longer.
    pub(crate) fn slow(&self, delay: Duration) {
        *self.0.delay.lock().unwrap() = delay;
    }

    /// The calls so far: their methods and paths.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.calls.lock().unwrap().clone()
    }

    fn copy(&self, mut from: UnixStream, mut to: UnixStream, calls: bool) {
        let line = self.clone();
        thread::spawn(move || {
            let mut chunk = [0; 64 * 1024];
            while let Ok(read @ 1..) = from.read(&mut chunk) {
                if calls {
                    line.note(&chunk[..read]);
                }
                thread::sleep(*line.0.delay.lock().unwrap());
                let frozen = line.0.frozen.lock().unwrap();
                drop(line.0.thawed.wait_while(frozen, |frozen| *frozen).unwrap());
                if to.write_all(&chunk[..read]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }

    /// The client writes the head of a request in one piece.
    fn note(&self, chunk: &[u8]) {
        let line = chunk.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let Some(call) = std::str::from_utf8(line).ok().and_then(|line| line.strip_suffix(" HTTP/1.1")) else { return };
        let number = {
            let mut calls = self.0.calls.lock().unwrap();
            calls.push(call.to_owned());
            calls.len() - 1
        };
        let mut at = self.0.at.lock().unwrap();
        let now = match &mut *at {
            Some((Moment::After(words), _)) => {
                if call.contains(words[0]) {
                    words.remove(0);
                }
                words.is_empty()
            }
            Some((Moment::Nth(wanted), _)) => number == *wanted,
            None => false,
        };
        let action = if now { at.take() } else { None };
        drop(at);
        if let Some((_, action)) = action {
            action(self);
        }
    }
}
