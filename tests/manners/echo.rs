//! A service that says back whatever it was asked with: a model and a guard that give away their keys.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

pub(crate) struct Echo {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = heads.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let noted = noted.clone();
                thread::spawn(move || serve(connection, &noted));
            }
        });
        Echo { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came with this in their heads.
    pub(crate) fn asked_with(&self, text: &str) -> usize {
        self.heads.lock().unwrap().iter().filter(|head| head.contains(text)).count()
    }
}

fn serve(mut connection: TcpStream, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (head, body) = request(BufReader::new(connection.try_clone()?))?;
    noted.lock().unwrap().push(head.clone());
    let key = head.lines().find_map(|line| line.strip_prefix("x-api-key: ")).unwrap_or_default();
    if head.starts_with("POST /guard") {
        return connection.write_all(&guard(&head, &body));
    }
    let whole = |status: &str, headers: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    };
    let echoed = json!({ "you": "said", "head": head }).to_string();
    let asked: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    match asked["say"].as_str().unwrap_or_default() {
        "BODY" => connection.write_all(whole("200 OK", "", &echoed).as_bytes()),
        "ERROR" => connection.write_all(whole("500 Oops", "", &echoed).as_bytes()),
        "HEADER" => {
            let headers = format!("x-echo: {key}\r\nx-{key}: 1\r\n");
            connection.write_all(whole("200 OK", &headers, "nothing").as_bytes())
        }
        "REDIRECT" => {
            let headers = format!("location: https://elsewhere.redroom.test/?key={key}\r\n");
            connection.write_all(whole("307 Temporary Redirect", &headers, "").as_bytes())
        }
        "DISGUISED" => {
            let spaced: String = key.bytes().map(|byte| format!("{byte:02x} ")).collect();
            connection.write_all(whole("200 OK", "", &spaced).as_bytes())
        }
        _ => stream(connection, key),
    }
}

/// The key in an event, cut in the middle, once for every place that it can be cut at.
fn stream(mut connection: TcpStream, key: &str) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.write_all(head.as_bytes())?;
    let mut chunk = |text: &str| {
        connection.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
        connection.flush()?;
        thread::park_timeout(Duration::from_millis(3));
        Ok::<_, std::io::Error>(())
    };
    for cut in 1..key.len() {
        chunk(&format!("data: {}", &key[..cut]))?;
        chunk(&format!("{}\n\n", &key[cut..]))?;
    }
    connection.write_all(b"0\r\n\r\n")
}

/// A guard's answers: one that tells its key in its reason and its arguments, one that is none, one that fails.
fn guard(head: &str, body: &str) -> Vec<u8> {
    let (status, answer) = if body.contains("NONSENSE") {
        ("200 OK", format!("{{ {head}"))
    } else if body.contains("FAILURE") {
        ("500 Oops", head.to_owned())
    } else {
        let output = json!({
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": head,
            "updatedInput": { "command": head },
        });
        ("200 OK", json!({ "hookSpecificOutput": output }).to_string())
    };
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}", answer.len()).into_bytes()
}

/// Head and body.
fn request(mut reader: BufReader<TcpStream>) -> std::io::Result<(String, String)> {
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body)?;
        }
        None if lower.contains("transfer-encoding: chunked") => loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap_or(0) + 2];
            reader.read_exact(&mut chunk)?;
            if chunk.len() == 2 {
                break;
            }
            body.extend_from_slice(&chunk[..chunk.len() - 2]);
        },
        None => {}
    }
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}
