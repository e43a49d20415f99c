//! A service in the model's place: it gets the key and the run's id, the agent gets its answers as they come, and the key is
//! nowhere that the agent, the sandbox or the evidence could give it away.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redroom::prelude::*;

/// What must never be seen. Made here and now: a sidecar is this program, with every constant in it.
static KEY: LazyLock<String> = LazyLock::new(|| format!("sk-marked-{}-{}", std::process::id(), *MADE));

/// When the key was made, in milliseconds.
static MADE: LazyLock<u128> = LazyLock::new(now);

/// Finds the key, and is not found by itself in the command that searches.
fn pattern() -> String {
    KEY.replacen("marked", "marke[d]", 1)
}

/// In milliseconds.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// What the agent is given in its place.
const PLACEHOLDER: &str = "redroom-placeholder-key";

/// A service in the model's place. It has the agent search for the key once, then say what was found.
struct Upstream {
    address: SocketAddr,
    /// Head and body of every request, as they came.
    asked: Mutex<Vec<(String, String)>>,
}

static UPSTREAM: LazyLock<&'static Upstream> = LazyLock::new(|| {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let upstream: &'static Upstream = Box::leak(Box::new(Upstream { address, asked: Mutex::default() }));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || upstream.serve(connection));
        }
    });
    upstream
});

impl Upstream {
    fn proxy(&self) -> ModelProxy {
        ModelProxy::new(format!("http://{}/gate/way", self.address)).header("x-api-key", KEY.as_str())
    }

    /// The requests of one run.
    fn asked_by(&self, run: &str) -> Vec<(String, String)> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|(head, _)| head.contains(&format!("x-redroom-run: {run}"))).cloned().collect()
    }

    fn serve(&self, connection: TcpStream) -> std::io::Result<()> {
        let mut writer = connection.try_clone()?;
        let (head, body) = request(BufReader::new(connection))?;
        let events = if body.contains("\"tool_result\"") {
            says("Searched.")
        } else if body.contains("SEARCH") {
            calls(&search())
        } else {
            says("Heard.")
        };
        let ticking = body.contains("TICK");
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((head, body));
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
        if !ticking {
            return writer.write_all(events.as_bytes());
        }
        for _ in 0..6 {
            writer.write_all(format!(": a comment\nevent: unknown\ndata: {}\n\n", now()).as_bytes())?;
            std::thread::park_timeout(Duration::from_millis(300));
        }
        Ok(())
    }
}

fn request(mut reader: BufReader<TcpStream>) -> std::io::Result<(String, String)> {
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let head = head.to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    if let Some(length) = length {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            let start = body.len();
            body.resize(start + size + 2, 0);
            reader.read_exact(&mut body[start..])?;
            body.truncate(start + size);
            if size == 0 {
                break;
            }
        }
    }
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}

/// Looks for the key wherever the agent may look, from within the agent: environments, command lines, files. Prints how often
/// it was found, and how often the placeholder and a file of the search's own were, which shows that it finds what is there.
///
/// Of the files, those are read that changed since the key was made: a jail holds all programs of its machine, and to read
/// gigabytes of them takes longer than the agent lets a command take.
fn search() -> String {
    let pattern = pattern();
    let everything = "{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; ps auxeww; } 2>/dev/null";
    let files = format!(
        "find / \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o -type f -newerct @{} -exec grep -las",
        *MADE / 1000
    );
    format!(
        "echo to-be-found > mark.txt; \
         echo key: $({everything} | grep -ac '{pattern}') placeholder: $({everything} | grep -ac 'redroom-placeholde[r]-key') \
         files: $({files} '{pattern}' {{}} + 2>/dev/null | wc -l) marks: $({files} '^to-be-foun[d]$' {{}} + 2>/dev/null | wc -l) \
         | tee found.txt"
    )
}

fn says(text: &str) -> String {
    answer(&json!({ "type": "text", "text": "" }), &json!({ "type": "text_delta", "text": text }), "end_turn")
}

fn calls(command: &str) -> String {
    let input = json!({ "command": command, "description": "search" }).to_string();
    answer(
        &json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }),
        &json!({ "type": "input_json_delta", "partial_json": input }),
        "tool_use",
    )
}

fn answer(block: &impl std::fmt::Display, delta: &impl std::fmt::Display, stop_reason: &str) -> String {
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    [
        (
            "message_start",
            format!(
                r#""message":{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}"#
            ),
        ),
        ("content_block_start", format!(r#""index":0,"content_block":{block}"#)),
        ("content_block_delta", format!(r#""index":0,"delta":{delta}"#)),
        ("content_block_stop", r#""index":0"#.to_owned()),
        (
            "message_delta",
            format!(r#""delta":{{"stop_reason":"{stop_reason}","stop_sequence":null}},"usage":{usage}"#),
        ),
        ("message_stop", String::new()),
    ]
    .map(|(name, fields)| {
        let comma = if fields.is_empty() { "" } else { "," };
        format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{fields}}}\n\n")
    })
    .concat()
}

#[redroom::attack(model_proxy = UPSTREAM.proxy())]
async fn the_service_gets_the_key_and_the_sandbox_never_does(run: Run) -> redroom::Result<()> {
    let turn = run.send("SEARCH").await?;
    assert_eq!(turn.final_text, "Searched.");
    let found = run.exec("cat found.txt").await?;
    let found = String::from_utf8_lossy(&found.stdout.0).into_owned();
    let [_, key, _, placeholder, _, files, _, marks] = found.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{found}")
    };
    assert_eq!((key, files, marks), ("0", "0", "1"), "{found}");
    assert_ne!(placeholder, "0", "the search finds nothing at all: {found}");
    let asked = UPSTREAM.asked_by(run.id());
    assert_eq!(asked.len(), 2);
    for (head, body) in &asked {
        assert!(head.starts_with("post /gate/way/v1/messages?beta=true http/1.1"), "{head}");
        assert!(head.contains(&format!("x-api-key: {}", *KEY)), "{head}");
        assert!(!head.contains(PLACEHOLDER) && !body.contains(PLACEHOLDER));
    }
    let containers = containers_of(&run);
    let result = run.finish().await?;
    assert_eq!(result.errors, []);
    for name in &result.artifacts.files {
        let content = std::fs::read(result.artifacts.folder.join(name)).expect("a file of the evidence");
        assert!(!String::from_utf8_lossy(&content).contains(KEY.as_str()), "{name}");
    }
    assert!(containers.iter().all(|(_, holds)| !holds), "{containers:?}");
    Ok(())
}

/// The run's container and all sidecars of this machine, with whether the key is in their files or their description. Empty
/// without the engine's own command.
fn containers_of(run: &Run) -> Vec<(String, bool)> {
    let ask = |arguments: &[&str]| Command::new("docker").args(arguments).output().ok().map(|output| output.stdout);
    let list = |label: &str| {
        let listed = ask(&["ps", "--no-trunc", "--quiet", "--filter", label]).unwrap_or_default();
        String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let pattern = pattern();
    let own = list(&format!("label=redroom.run={}", run.id()));
    let sidecars = list("label=redroom.role=slot");
    own.into_iter()
        .chain(sidecars)
        .map(|id| {
            let script = format!(
                "{{ docker export {id}; docker inspect {id}; docker top {id}; }} 2>/dev/null | grep -aq '{pattern}'"
            );
            let holds = Command::new("sh").args(["-c", &script]).status().is_ok_and(|status| status.success());
            (id, holds)
        })
        .collect()
}

#[redroom::attack(model_proxy = UPSTREAM.proxy())]
async fn events_arrive_as_they_are_sent(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let output = run
        .exec(
            r#"curl -sN -X POST -d '{"say":"TICK"}' "$ANTHROPIC_BASE_URL/v1/messages" | while read -r line; do echo "$(date +%s%3N) $line"; done"#,
        )
        .await?;
    let output = String::from_utf8_lossy(&output.stdout.0).into_owned();
    let late: Vec<i64> = output
        .lines()
        .filter_map(|line| {
            let (arrived, sent) = line.split_once(" data: ")?;
            Some(arrived.parse::<i64>().ok()? - sent.parse::<i64>().ok()?)
        })
        .collect();
    assert_eq!(late.len(), 6, "{output}");
    assert!(late.iter().all(|late| *late < 150), "milliseconds late: {late:?}");
    assert_eq!(output.matches(" : a comment").count(), 6, "{output}");
    assert_eq!(output.matches(" event: unknown").count(), 6, "{output}");
    Ok(())
}
