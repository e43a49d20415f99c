//! Claude Code: its command line, its endpoints, its files. How it is silenced and hooked is in `settings`, how its output
//! is read in `stream`, where its program comes from in `program`.
//!
//! Knows nothing of images, mounts or slots.

pub(super) mod program;
mod settings;
mod stream;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use async_trait::async_trait;
use redroom_sidecar::wire::ModelEndpoint;

use super::{
    Agent, Printed, Program, ProgramSources, Progress, RootFile, ToolHook, TurnCommand, TurnInput, TurnReader, Wiring,
};
use crate::backend::HOME;
use crate::error::{By, Error, Result};

const NAME: &str = "claude-code";
const INSTALLED: &str = "/usr/local/bin/claude";

/// Claude Code, headless, at one pinned version.
///
/// ```
/// # use redroom_harness as redroom;
/// use redroom::ClaudeCode;
///
/// let agent = ClaudeCode::new("2.1.332").model("sonnet").max_turns(30).max_budget_usd(1.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ClaudeCode {
    version: String,
    model: String,
    max_turns: u32,
    max_budget_usd: f64,
    binary: Option<PathBuf>,
}

impl ClaudeCode {
    /// What a turn may be allowed to cost.
    pub(crate) const BUDGET: RangeInclusive<f64> = 0.0001..=1_000_000.0;

    /// This version, exactly: `2.1.332`. With the model `sonnet`, at most 30 steps and 1 US dollar a turn.
    pub fn new(version: impl Into<String>) -> Self {
        ClaudeCode {
            version: version.into(),
            model: "sonnet".to_owned(),
            max_turns: 30,
            max_budget_usd: 1.0,
            binary: None,
        }
    }

    /// The model to ask for: an alias such as `haiku`, a full name, or a name that the model proxy knows.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// The most steps of one turn, at least 1.
    pub fn max_turns(mut self, steps: u32) -> Self {
        self.max_turns = steps;
        self
    }

    /// The most that one turn may cost, in US dollars at list price. Checked after each model answer, so that a turn can
    /// cost one answer more.
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = dollars;
        self
    }

    /// The program: a file on this machine, for Linux and its processor, instead of one fetched with npm.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }
}

#[async_trait]
impl Agent for ClaudeCode {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn model(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn check(&self) -> Result<()> {
        program::version(&self.version)?;
        let invalid = |what: &str| Err(Error::redroom("invalid_agent", format!("ClaudeCode: {what}")));
        if self.model.is_empty() || self.model.len() > 256 || self.model.starts_with('-') {
            return invalid("`model` must be a name such as `sonnet`, of at most 256 bytes, without a hyphen in front");
        }
        if self.model.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return invalid("`model` must have no spaces and no control characters");
        }
        if self.max_turns == 0 {
            return invalid("`max_turns` must be at least 1");
        }
        if !Self::BUDGET.contains(&self.max_budget_usd) {
            let (least, most) = (Self::BUDGET.start(), Self::BUDGET.end());
            return invalid(&format!("`max_budget_usd` must be from {least} to {most}"));
        }
        Ok(())
    }

    async fn program(&self, sources: &ProgramSources, progress: Progress<'_>) -> Result<Program> {
        let version = program::version(&self.version)?;
        let source = match sources.claude_code.as_ref().or(self.binary.as_ref()) {
            Some(named) => program::named(named)?,
            None => program::package(&sources.cache, version)?.cached(progress).await?,
        };
        Ok(Program::new(NAME, &self.version).file(source, INSTALLED))
    }

    fn version_command(&self) -> Option<Vec<String>> {
        Some(vec!["claude".to_owned(), "--version".to_owned()])
    }

    fn check_version(&self, printed: &Printed<'_>) -> Result<String> {
        let text = String::from_utf8_lossy(printed.out);
        if printed.exit_code != Some(0) {
            let words = [printed.out, printed.err].concat();
            return Err(super::not_startable("Claude Code", printed.exit_code, &String::from_utf8_lossy(&words)));
        }
        match text.trim().strip_suffix(" (Claude Code)") {
            Some(version) if version == self.version => Ok(version.to_owned()),
            _ => Err(Error::new(
                By::Agent,
                "agent_version_mismatch",
                format!(
                    "asked for Claude Code {}, but the program says {}; name the version that the file is, or leave the \
                     file out to have the version fetched",
                    self.version,
                    super::start::said(&text)
                ),
            )),
        }
    }

    fn environment(&self, wiring: &Wiring) -> Vec<(String, String)> {
        settings::environment(wiring)
    }

    fn root_files(&self, wiring: &Wiring) -> Vec<RootFile> {
        vec![RootFile::new(settings::PATH, settings::managed(wiring))]
    }

    fn model_endpoints(&self) -> Vec<ModelEndpoint> {
        [("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens"), ("GET", "/v1/models")]
            .map(|(method, path)| ModelEndpoint::new(method, path))
            .into()
    }

    fn hook(&self) -> ToolHook {
        ToolHook::TurnsAndToolCalls
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        let (max_turns, max_budget) = (self.max_turns.to_string(), self.max_budget_usd.to_string());
        let session = if turn.index == 0 { "--session-id" } else { "--resume" };
        let argv = [
            "claude",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            &self.model,
            session,
            turn.session,
            "--max-turns",
            &max_turns,
            "--max-budget-usd",
            &max_budget,
            "--dangerously-skip-permissions",
        ];
        TurnCommand::new(argv).stdin(turn.message)
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        Box::new(stream::Reader::default())
    }

    fn said(&self, line: &str) -> Option<String> {
        stream::said(line)
    }

    fn is_transcript(&self, session: &str, path: &str) -> bool {
        let of_session = path
            .strip_prefix(HOME)
            .and_then(|path| path.strip_prefix("/.claude/projects/-workspace/"))
            .and_then(|path| path.strip_prefix(session));
        match of_session {
            Some(".jsonl") => true,
            Some(rest) => {
                rest.strip_prefix("/subagents/").is_some_and(|name| name.ends_with(".jsonl") && !name.contains('/'))
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Agent, ClaudeCode, Printed, TurnInput};

    const SESSION: &str = "11111111-1111-4111-8111-111111111111";

    fn agent() -> ClaudeCode {
        ClaudeCode::new("2.1.332")
    }

    #[test]
    fn the_first_turn_opens_the_session_and_later_ones_resume_it() {
        let command = |index| agent().turn(&TurnInput { session: SESSION, index, message: "-do it" });
        assert_eq!(
            command(0).argv.join(" "),
            "claude -p --output-format stream-json --verbose --model sonnet --session-id \
             11111111-1111-4111-8111-111111111111 --max-turns 30 --max-budget-usd 1 --dangerously-skip-permissions"
        );
        assert!(command(1).argv.join(" ").contains(&format!("--resume {SESSION}")));
        assert_eq!(&command(0).stdin[..], b"-do it");
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_runs() {
        assert!(agent().check().is_ok());
        for wrong in [
            ClaudeCode::new("latest"),
            agent().model(""),
            agent().model("--help"),
            agent().model("a b"),
            agent().max_turns(0),
            agent().max_budget_usd(0.0),
            agent().max_budget_usd(f64::NAN),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_the_version_asked_for_will_do() {
        let check = |exit_code, out: &str, err: &str| {
            agent().check_version(&Printed { exit_code: Some(exit_code), out: out.as_bytes(), err: err.as_bytes() })
        };
        assert_eq!(check(0, "2.1.332 (Claude Code)\n", "").unwrap(), "2.1.332");
        assert_eq!(check(0, "2.1.331 (Claude Code)\n", "").unwrap_err().code(), "agent_version_mismatch");
        assert_eq!(check(0, "", "").unwrap_err().code(), "agent_version_mismatch");
        let missing = check(127, "", "claude: error while loading shared libraries: libfoo.so\n").unwrap_err();
        assert_eq!(missing.code(), "agent_not_startable");
        assert!(missing.detail().contains("libfoo.so"));
        assert_eq!(missing.call().unwrap().exit_code, Some(127));
    }

    #[test]
    fn the_transcript_is_the_sessions_own_and_its_sub_agents() {
        let is = |path: &str| agent().is_transcript(SESSION, &format!("/home/agent/.claude/projects/{path}"));
        assert!(is(&format!("-workspace/{SESSION}.jsonl")));
        assert!(is(&format!("-workspace/{SESSION}/subagents/agent-a1.jsonl")));
        assert!(!is(&format!("-workspace/{SESSION}/tool-results/x.jsonl")));
        assert!(!is(&format!("-workspace/{SESSION}/subagents/deep/a.jsonl")));
        assert!(!is("-workspace/22222222-2222-4222-8222-222222222222.jsonl"));
        assert!(!agent().is_transcript(SESSION, &format!("/workspace/{SESSION}.jsonl")));
    }
}
