//! Programs of other people between redroom and a model, as its documentation shows them: LiteLLM, with the real Claude Code
//! before it and a scripted provider behind it.
//!
//! Ignored with the reason unless `REDROOM_TEST_LITELLM` names LiteLLM's program, which `.ci/run` installs, and the backend and the
//! agent are to be had; a failure where `REDROOM_REQUIRE` names the backend, or for what is no backend, anything.

#[path = "../gateways/gateway.rs"]
#[allow(dead_code, reason = "the gateway is another suite's, and has more sides than are looked at here")]
mod gateway;

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use redroom::{By, ClaudeCode, ModelProxy, Redroom, RunOptions, Suite};

use gateway::{KEY, PLAIN};

const LITELLM: &str = "REDROOM_TEST_LITELLM";

/// How long LiteLLM may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    // A sidecar and a jail's processes are this executable too.
    redroom::init();
    let mut arguments = Arguments::from_args();
    // One LiteLLM at a time is load enough.
    arguments.test_threads = Some(1);
    let trials = ["docker", "jail"].map(|backend| {
        Trial::ignorable_test(format!("litellm_answers_claude_code::{backend}"), move || litellm(backend))
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn litellm(backend: &'static str) -> Result<Completion, Failed> {
    let Some(program) = std::env::var_os(LITELLM).filter(|program| !program.is_empty()) else {
        return without(format!("{LITELLM} names no program of LiteLLM"), |_| true);
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let redroom = match runtime.block_on(Redroom::start(Suite::new().backend(backend))) {
        Ok(redroom) => redroom,
        Err(error) => return without(error.to_string(), |required| required == backend),
    };
    let folder = tempfile::tempdir()?;
    let peer = Peer::start(Path::new(&program), folder.path())?;
    let played = runtime.block_on(play(&redroom, &peer));
    runtime.block_on(redroom.stop());
    match played {
        Err(error) if error.by() == By::Agent && error.code() == "npm_missing" => without(error.to_string(), |_| true),
        Err(error) => Err(format!("{error}\n{}", peer.said()).into()),
        Ok(()) => Ok(Completion::Completed),
    }
}

/// What a trial comes to without something that it needs: ignored, or failed where a word of `REDROOM_REQUIRE` asks for it.
fn without(reason: String, is_required_by: impl Fn(&str) -> bool) -> Result<Completion, Failed> {
    let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
    match required.split(',').filter(|word| !word.is_empty()).any(is_required_by) {
        true => Err(reason.into()),
        false => Ok(Completion::ignored_with(reason)),
    }
}

async fn play(redroom: &Redroom, peer: &Peer) -> redroom::Result<()> {
    let proxy =
        ModelProxy::new(format!("http://127.0.0.1:{}/", peer.port)).header("x-api-key", &peer.key).silence(PATIENCE);
    let agent = ClaudeCode::new("2.1.332").model("my-model");
    let run = redroom.start_run(RunOptions::new().name("litellm").agent(agent).model_proxy(proxy)).await?;
    let before = PLAIN.asked().len();
    let turn = run.send("Hello.").await?;
    assert_eq!(turn.final_text, "Heard.", "{}", peer.said());
    let asked = PLAIN.asked().split_off(before);
    assert!(!asked.is_empty());
    for asked in &asked {
        // LiteLLM's own key for its provider, and neither redroom's for LiteLLM nor the agent's placeholder.
        let said = format!("{:?}", asked.headers);
        assert_eq!(asked.headers["x-api-key"], *KEY, "{said}");
        assert!(!said.contains(&peer.key) && !said.contains("redroom-placeholder-key"), "{said}");
        assert!(asked.line.starts_with("POST /provider/v1/messages"), "{}", asked.line);
    }
    let result = run.finish().await?;
    assert_eq!(result.errors, []);
    assert!(result.model_calls.iter().all(|call| call.request.status == Some(200)), "{:?}", result.model_calls);
    Ok(())
}

/// LiteLLM, on this machine; ends when dropped.
struct Peer {
    child: Child,
    port: u16,
    key: String,
    log: std::path::PathBuf,
}

impl Peer {
    fn start(program: &Path, folder: &Path) -> std::io::Result<Self> {
        let page = include_str!("../../docs/gateways.md");
        let config = page.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```")).expect("an example").0;
        let provider = format!("model: anthropic/some-model\n      api_base: http://{}/provider", PLAIN.host());
        let config = config.replace("model: anthropic/some-model", &provider);
        std::fs::write(folder.join("litellm.yaml"), config)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let (key, log) = (format!("sk-master-{}-{}", std::process::id(), gateway::now()), folder.join("log"));
        let output = std::fs::File::create(&log)?;
        let child = Command::new(program)
            .args([
                "--config",
                "litellm.yaml",
                "--host",
                "127.0.0.1",
                "--telemetry",
                "False",
                "--port",
                &port.to_string(),
            ])
            .current_dir(folder)
            .env("PROVIDER_KEY", KEY.as_str())
            .env("LITELLM_MASTER_KEY", &key)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut peer = Peer { child, port, key, log };
        peer.wait_until_it_listens()?;
        Ok(peer)
    }

    fn wait_until_it_listens(&mut self) -> std::io::Result<()> {
        let begun = Instant::now();
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                return Err(std::io::Error::other(format!("LiteLLM does not start ({ended:?}):\n{}", self.said())));
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
