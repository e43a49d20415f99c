//! A shell that may ask a model, and services on this machine that note what they are asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;

use async_trait::async_trait;
use redroom::agent::{Agent, ProgramSources, RootFile, ToolHook, TurnCommand, TurnInput, TurnReader, Wiring};
use redroom::backend::{Program, Progress};
use redroom::{ModelEndpoint, Shell};

/// What the agent has in the place of a key.
pub(crate) const PLACEHOLDER: &str = "asking-placeholder-key";

/// A shell that may ask a model.
pub(crate) struct Asking {
    shell: Shell,
    endpoints: Vec<&'static str>,
}

impl Asking {
    /// One that asks in the Messages format.
    pub(crate) fn new() -> Self {
        Asking::at(["/v1/messages"])
    }

    /// One that posts to these paths.
    pub(crate) fn at(endpoints: impl IntoIterator<Item = &'static str>) -> Self {
        Asking { shell: Shell::new(), endpoints: endpoints.into_iter().collect() }
    }
}

#[async_trait]
impl Agent for Asking {
    fn name(&self) -> &str {
        self.shell.name()
    }

    fn version(&self) -> &str {
        self.shell.version()
    }

    fn model(&self) -> Option<&str> {
        None
    }

    async fn program(&self, sources: &ProgramSources, progress: Progress<'_>) -> redroom::Result<Program> {
        self.shell.program(sources, progress).await
    }

    fn environment(&self, wiring: &Wiring) -> Vec<(String, String)> {
        let mut environment = self.shell.environment(wiring);
        environment.push(("MODEL".to_owned(), wiring.model_base_url.clone()));
        environment.push(("HOOK".to_owned(), wiring.tool_hook_url.clone()));
        environment.push(("MODEL_KEY".to_owned(), PLACEHOLDER.to_owned()));
        environment
    }

    fn root_files(&self, wiring: &Wiring) -> Vec<RootFile> {
        self.shell.root_files(wiring)
    }

    fn model_endpoints(&self) -> Vec<ModelEndpoint> {
        let post = |path: &&str| ModelEndpoint::new("POST", *path);
        self.endpoints.iter().map(post).collect()
    }

    fn hook(&self) -> ToolHook {
        ToolHook::Voluntary
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        self.shell.turn(turn)
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        self.shell.reader()
    }
}

/// A request as it came: its head in lower case, and its body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A service on this machine that answers everything with an empty JSON object, and notes what it was asked.
pub(crate) struct Service {
    address: SocketAddr,
    asked: Mutex<Vec<Asked>>,
}

impl Service {
    /// Lives as long as the process.
    pub(crate) fn start() -> &'static Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let service: &'static Service = Box::leak(Box::new(Service { address, asked: Mutex::default() }));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                thread::spawn(move || service.serve(connection));
            }
        });
        service
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked on behalf of a run.
    pub(crate) fn asked_by(&self, run: &str) -> Vec<Asked> {
        let of_run = format!("x-redroom-run: {run}\r\n");
        self.asked().into_iter().filter(|asked| asked.head.contains(&of_run)).collect()
    }

    /// Whatever it was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let asked = request(BufReader::new(connection.try_clone()?))?;
        let answer = match asked.head.starts_with("get /asked ") {
            // For who stands in another process: the heads so far.
            true => self.asked().iter().map(|asked| format!("{}\n", asked.head)).collect(),
            false => {
                self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
                "{}".to_owned()
            }
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        connection.write_all(format!("{head}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes())
    }
}

/// The heads that a [`Service`] of another process was asked with.
pub(crate) fn heads_at(url: &str) -> String {
    let address = url.strip_prefix("http://").expect("a service's url");
    let mut connection = TcpStream::connect(address).expect("the service lives");
    connection.write_all(b"GET /asked HTTP/1.1\r\nhost: service\r\n\r\n").expect("the service listens");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("the service answers");
    answer
}

fn request(mut reader: BufReader<TcpStream>) -> std::io::Result<Asked> {
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    while head.contains("transfer-encoding: chunked") {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap_or(0) + 2];
        reader.read_exact(&mut chunk)?;
        if chunk.len() == 2 {
            break;
        }
        body.extend_from_slice(&chunk[..chunk.len() - 2]);
    }
    Ok(Asked { head, body })
}
