//! An agent of one's own: what redroom has to know of `mini.py`.

use redroom::agent::{
    Agent, HOME, ParsedTurn, PlainText, Program, ProgramSources, Progress, RootFile, ToolHook, TurnCommand, TurnInput,
    TurnReader, Wiring,
};
use redroom::{ModelEndpoint, async_trait, json};

const PROGRAM: &str = "/opt/mini/mini.py";

/// `mini.py`, with or without its tool hook.
pub(crate) struct Mini {
    hooked: bool,
}

impl Mini {
    /// It asks the hook before it runs a command.
    pub(crate) fn new() -> Self {
        Mini { hooked: true }
    }

    /// It asks nobody.
    #[allow(dead_code, reason = "an example of a choice; not everybody who shares this file makes it")]
    pub(crate) fn without_hook() -> Self {
        Mini { hooked: false }
    }
}

#[async_trait]
impl Agent for Mini {
    fn name(&self) -> &str {
        "mini"
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn model(&self) -> Option<&str> {
        Some("claude-sonnet-4-5")
    }

    /// Its interpreter is the image's, or, in a jail, this machine's. One with files on this machine would name them here, by
    /// their absolute paths: `Program::new(…).file(built, "/usr/local/bin/agent")`, where `built` begins with
    /// `env!("CARGO_MANIFEST_DIR")`.
    async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> redroom::Result<Program> {
        Ok(Program::new(self.name(), self.version()))
    }

    /// The script itself, out of this executable: it is small, and nobody has to find it.
    fn root_files(&self, _: &Wiring) -> Vec<RootFile> {
        vec![RootFile::new(PROGRAM, include_str!("mini.py"))]
    }

    fn version_command(&self) -> Option<Vec<String>> {
        Some(["python3", PROGRAM, "--version"].map(str::to_owned).into())
    }

    fn environment(&self, wiring: &Wiring) -> Vec<(String, String)> {
        let mut environment = vec![
            ("ANTHROPIC_BASE_URL", wiring.model_base_url.as_str()),
            // Everything in the sandbox can read it; the real one never comes near.
            ("ANTHROPIC_API_KEY", "placeholder"),
            ("MINI_MODEL", "claude-sonnet-4-5"),
        ];
        if self.hooked {
            environment.push(("MINI_HOOK_URL", &wiring.tool_hook_url));
        }
        environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn model_endpoints(&self) -> Vec<ModelEndpoint> {
        vec![ModelEndpoint::new("POST", "/v1/messages")]
    }

    fn hook(&self) -> ToolHook {
        if self.hooked { ToolHook::ToolCalls } else { ToolHook::None }
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        TurnCommand::new(["python3", PROGRAM, turn.session]).stdin(turn.message)
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        Box::new(Lines { text: PlainText::new(self.name()) })
    }

    fn is_transcript(&self, session: &str, path: &str) -> bool {
        path == format!("{HOME}/.mini/{session}.json")
    }
}

/// One JSON object a line; the last one holds the answer. Whatever fails is told as [`PlainText`] tells it.
struct Lines {
    text: PlainText,
}

impl TurnReader for Lines {
    fn out(&mut self, chunk: &[u8]) {
        self.text.out(chunk);
    }

    fn err(&mut self, chunk: &[u8]) {
        self.text.err(chunk);
    }

    fn end(self: Box<Self>, exit_code: Option<i64>) -> ParsedTurn {
        let mut turn = Box::new(self.text).end(exit_code);
        for line in std::mem::take(&mut turn.final_text).lines() {
            match serde_json::from_str(line) {
                Ok(event) => turn.events.push(event),
                Err(_) => turn.lines_unread += 1,
            }
        }
        if let Some(end) = turn.events.last().filter(|event| event["type"] == json!("end")) {
            turn.final_text = end["text"].as_str().unwrap_or_default().to_owned();
            turn.stop_reason = Some("completed".to_owned());
        }
        turn
    }
}
