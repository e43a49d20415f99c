//! An agent whose every part a test chooses, and sessions that are to be refused.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use redroom::agent::{Agent, ModelApi, Program, ProgramSources, Progress, ToolHook, TurnCommand, TurnInput, Wiring};
use redroom::{Error, ModelEndpoint, Redroom, RunOptions, Suite, async_trait};

/// An agent of parts.
#[derive(Clone)]
pub(crate) struct Trial {
    name: &'static str,
    argv: Vec<String>,
    file: Option<(PathBuf, &'static str)>,
    version_command: Option<Vec<String>>,
    api: ModelApi,
    endpoint: Option<&'static str>,
    model: Option<&'static str>,
}

impl Trial {
    /// Its turn is this command, with the message on standard input. It has no hook.
    pub(crate) fn new(name: &'static str, argv: &[&str]) -> Self {
        Trial {
            name,
            argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
            file: None,
            version_command: None,
            api: ModelApi::AnthropicMessages,
            endpoint: None,
            model: None,
        }
    }

    pub(crate) fn file(mut self, source: impl Into<PathBuf>, target: &'static str) -> Self {
        self.file = Some((source.into(), target));
        self
    }

    pub(crate) fn version_command(mut self, argv: &[&str]) -> Self {
        self.version_command = Some(argv.iter().map(|argument| (*argument).to_owned()).collect());
        self
    }

    /// It asks `model` at this path, in this API.
    pub(crate) fn asking(mut self, model: &'static str, api: ModelApi, path: &'static str) -> Self {
        (self.model, self.api, self.endpoint) = (Some(model), api, Some(path));
        self
    }
}

#[async_trait]
impl Agent for Trial {
    fn name(&self) -> &str {
        self.name
    }

    fn version(&self) -> &str {
        "1.0"
    }

    fn model(&self) -> Option<&str> {
        self.model
    }

    async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> redroom::Result<Program> {
        let program = Program::new(self.name, "1.0");
        Ok(match &self.file {
            Some((source, target)) => program.file(source, *target),
            None => program,
        })
    }

    fn version_command(&self) -> Option<Vec<String>> {
        self.version_command.clone()
    }

    fn environment(&self, wiring: &Wiring) -> Vec<(String, String)> {
        vec![("MODEL".to_owned(), wiring.model_base_url.clone())]
    }

    fn model_endpoints(&self) -> Vec<ModelEndpoint> {
        self.endpoint.iter().map(|path| ModelEndpoint::new("POST", *path)).collect()
    }

    fn model_api(&self) -> ModelApi {
        self.api
    }

    fn hook(&self) -> ToolHook {
        ToolHook::None
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        TurnCommand::new(&self.argv).stdin(turn.message)
    }
}

/// Why a run with these options does not start, in a session of its own.
pub(crate) async fn refused(options: RunOptions) -> Error {
    let session = Redroom::start(Suite::new()).await.expect("a session");
    let refused = session.start_run(options.name("refused")).await;
    session.stop().await;
    refused.expect_err("a run that cannot be")
}

/// A program of a test's, where a backend can take it from: the same at every call.
pub(crate) fn program(name: &str, mode: u32, body: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("redroom-tests-agents-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&folder).expect("a folder");
    // Whole at once: other tests may be reading it.
    let mut file = tempfile::NamedTempFile::new_in(&folder).expect("a file");
    std::io::Write::write_all(&mut file, body).expect("written");
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).expect("its mode");
    file.persist(folder.join(name)).expect("in its place");
    folder.join(name)
}
