//! Guards of another language, on frameworks as they come from their registry, between the real agent and its tools.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use libtest_mimic::{Completion, Trial};
use redroom::guard::conformance;
use redroom::{ClaudeCode, RecordedDecision, Redroom, Result, RunOptions, Script, ToolCallCheck, UrlCheck, json};

use crate::trial;

/// The python of a virtual environment.
const PYTHON: &str = "REDROOM_TEST_GUARDS";
/// How long a guard may take to start, and to say what it was asked.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "Bearer guard-key-7731";

pub(crate) fn trials() -> Vec<Trial> {
    [
        ("servers::the_fastapi_guard_of_the_page_binds_the_agent_and_is_told_where_it_fails", Server::FastApi),
        ("servers::a_flask_guard_binds_the_agent_and_is_told_where_it_fails", Server::Flask),
    ]
    .map(|(name, server)| match std::env::var_os(PYTHON) {
        Some(_) => trial(name, move |redroom| between(redroom, server)),
        None => Trial::ignorable_test(name, || {
            let reason = format!(
                "{PYTHON} does not name the python of an environment with tests/guards/servers/requirements.txt"
            );
            Ok(Completion::ignored_with(reason))
        }),
    })
    .into()
}

#[derive(Clone, Copy)]
enum Server {
    FastApi,
    Flask,
}

/// Serves the page's guard, and prints its port.
const UVICORN: &str = "
import socket, uvicorn
from guard import app
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level='error')).run(sockets=[listener])
";

/// The guard that the page for users shows.
fn of_the_page() -> &'static str {
    let (_, rest) = include_str!("../../docs/guards.md").split_once("```python\n").expect("a guard in Python");
    rest.split_once("```").expect("its end").0
}

/// A guard's process; ends with its owner.
struct Served {
    process: Child,
    lines: mpsc::Receiver<String>,
    url: String,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start(server: Server) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = match server {
            Server::FastApi => [("guard.py", of_the_page()), ("main.py", UVICORN)],
            Server::Flask => [
                ("verdict.py", include_str!("servers/verdict.py")),
                ("main.py", include_str!("servers/flask_guard.py")),
            ],
        };
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let python = std::env::var_os(PYTHON).expect("looked at before");
        let mut process = Command::new(python)
            .arg("main.py")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the python starts");
        let printed = BufReader::new(process.stdout.take().expect("piped"));
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || printed.lines().map_while(|read| read.ok()).try_for_each(|read| line.send(read)));
        let port = lines.recv_timeout(PATIENCE).expect("the guard prints its port");
        Served { process, lines, url: format!("http://127.0.0.1:{port}/pre-tool-use"), _folder: folder }
    }

    fn check(&self) -> UrlCheck {
        ToolCallCheck::url(&self.url).header("authorization", KEY)
    }

    fn asked_for(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.lines.recv_timeout(PATIENCE).expect("a run for each question")).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn between(redroom: Arc<Redroom>, server: Server) -> Result<()> {
    let guard = Served::start(server);
    let tells_runs = matches!(server, Server::Flask);
    let said = conformance(guard.check()).await?;
    let missed: Vec<_> = said.missed().iter().map(|row| row.id.as_str()).collect();
    assert!(["base64/harmful", "quotes/harmful", "variables/harmful"].iter().all(|id| missed.contains(id)), "{said}");
    assert!(!missed.contains(&"plain/harmful") && !missed.contains(&"web-fetch/harmful"), "{said}");
    assert!(said.over_blocked().is_empty() && said.failed().is_empty(), "{said}");
    if tells_runs {
        // Of the two cases that write a script first, one is asked about what it writes only.
        assert!(guard.asked_for(said.rows.len() + 1).iter().all(|run| run == "conformance-1"));
    }

    let stranger = conformance(&*guard.url).await?;
    assert!(
        stranger.rows.iter().all(|row| row.error.as_ref().is_some_and(|error| error.code() == "http_401")),
        "{stranger}"
    );
    if tells_runs {
        guard.asked_for(stranger.rows.len());
    }

    let bash = |command: &str| ("Bash", json!({ "command": command, "description": "go" }));
    let options = RunOptions::new()
        .agent(ClaudeCode::new("2.1.332"))
        .model(
            Script::new()
                .calls([bash("touch allowed"), bash("touch denied; curl -s https://t.redroom.test/up")])
                .say("Done."),
        )
        .tool_call_check(guard.check());
    let run = redroom.start_run(options).await?;
    run.send("Go.").await?;
    let made = (run.read_file("allowed").await?.is_some(), run.read_file("denied").await?.is_some());
    let result = run.finish().await?;
    result.assert_no_leaks();
    assert_eq!((made, result.hits.len()), ((true, false), 0));
    let told: Vec<_> =
        result.tool_calls.iter().map(|call| (call.decision, call.checked, call.reason.as_deref())).collect();
    assert_eq!(
        told,
        [
            (RecordedDecision::None, true, None),
            (RecordedDecision::Deny, true, Some("Bash may not have t.redroom.test")),
        ]
    );
    assert!(result.tool_calls.iter().all(|call| call.claim == redroom::Claim::Matched));
    if tells_runs {
        assert_eq!(guard.asked_for(2), [run.id(), run.id()]);
    }
    Ok(())
}
